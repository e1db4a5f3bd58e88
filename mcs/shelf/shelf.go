package shelf

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// Shelf holds the offer of every pool. It keeps what was put there last until something else is, whatever happens to
// the cluster. The zero value is not for use; make one with NewShelf. All methods may be called at once; those that
// change it wait for each other, those that read it wait for nobody's bodies.
type Shelf struct {
	making sync.Mutex // one change at a time, over the time that bodies take
	extra  mcs.Extra  // read and written while making

	mu              sync.RWMutex
	pools           map[string]place
	partial, synced bool
}

// place is what the shelf has for one pool.
type place struct {
	offer  *Offer                // nil: the pool exists and has nothing to serve
	wanted *mcfgv1.MachineConfig // what was put last, which may be another than the offer's
	why    string                // why there is nothing to serve, or why not what is wanted; empty where all is well
}

// held says why a pool has nothing to serve.
type held string

func (h held) Error() string { return string(h) }

// Is makes it a kind of mcs.ErrNothingRendered: a machine that asks shall ask again.
func (h held) Is(target error) bool { return target == mcs.ErrNothingRendered }

// NewShelf returns an empty shelf that is not ready.
func NewShelf() *Shelf { return &Shelf{pools: map[string]place{}} }

// Put makes a rendered config what its pool serves, once its first bodies are made; until then the pool serves what it
// did. The config must not be changed afterwards. Nil says that the pool exists and has nothing to serve. The error says
// why the config cannot be served: then the pool keeps an earlier one, or else fails whoever asks with that.
func (s *Shelf) Put(pool string, rendered *mcfgv1.MachineConfig) error {
	s.making.Lock()
	defer s.making.Unlock()
	if rendered == nil {
		s.set(pool, place{})
		return nil
	}
	last := s.place(pool)
	if last.offer != nil && last.why == "" && same(last.offer.in.Rendered, rendered) {
		return nil
	}
	if last.offer == nil {
		s.set(pool, place{why: last.why}) // the pool exists, so a machine that asks meanwhile has to wait, not to give up
	}
	next, err := s.fill(pool, place{offer: last.offer, wanted: rendered})
	s.set(pool, next)
	return err
}

// fill offers what is wanted with what the server adds now, or keeps the offer there is and says why.
func (s *Shelf) fill(pool string, p place) (place, error) {
	next := newOffer(mcs.Input{Pool: pool, Rendered: p.wanted, Extra: s.extra})
	err := next.prepare(p.offer)
	if err == nil {
		return place{offer: next, wanted: p.wanted}, nil
	}
	p.why = err.Error()
	if p.offer == nil || p.offer.problem() != nil {
		p.offer = next // whoever asks meets what is wrong with it
	}
	return p, err
}

// again makes an offer that was kept with what the server adds now, or keeps it as it is where that cannot be.
func (s *Shelf) again(kept *Offer) *Offer {
	in := kept.in
	in.Extra = s.extra
	if next := newOffer(in); next.prepare(kept) == nil {
		return next
	}
	return kept
}

// same tells whether two rendered configs are served alike. A name stands for its content only where it is a hash.
func same(a, b *mcfgv1.MachineConfig) bool {
	return a.Name == b.Name && a.Annotations[v1alpha1.RevisionAnnotation] == b.Annotations[v1alpha1.RevisionAnnotation] &&
		reflect.DeepEqual(a.Spec, b.Spec)
}

// Hold says that a pool exists and has nothing to serve, and why, in words for whoever asks.
func (s *Shelf) Hold(pool, why string) {
	s.making.Lock()
	defer s.making.Unlock()
	s.set(pool, place{why: why})
}

// Remove forgets a pool.
func (s *Shelf) Remove(pool string) {
	s.making.Lock()
	defer s.making.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pools, pool)
}

// SetExtra changes what the server adds to each config, and makes all offers again, each taking its predecessor's place
// when it is made. It must not be changed afterwards. The errors name the pools that keep what they served before.
func (s *Shelf) SetExtra(extra mcs.Extra) error {
	s.making.Lock()
	defer s.making.Unlock()
	s.extra = extra
	var bad []error
	for _, pool := range slices.Sorted(maps.Keys(s.all())) {
		p := s.place(pool)
		if p.wanted == nil {
			continue
		}
		next, err := s.fill(pool, p)
		if err != nil {
			bad = append(bad, fmt.Errorf("making what pool %s serves: %w", pool, err))
			next.offer = s.again(next.offer)
		}
		s.set(pool, next)
	}
	return errors.Join(bad...)
}

// SetReady says that every pool has been put once; from now on a pool that is not here does not exist.
func (s *Shelf) SetReady() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = true
}

// SetPartial says that what is here may be served, though there may be more: a pool that is not here may exist, so whoever
// asks for it shall ask again.
func (s *Shelf) SetPartial() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partial = true
}

// Ready tells whether SetReady or SetPartial was called.
func (s *Shelf) Ready() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.partial || s.synced
}

// Complete tells whether SetReady was called.
func (s *Shelf) Complete() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

// Offer returns what a pool serves now. The error is mcs.ErrUnknownPool, mcs.ErrNothingRendered (or one of its kind, with
// the words of Hold) or mcs.ErrNotSynced.
func (s *Shelf) Offer(pool string) (*Offer, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, known := s.pools[pool]
	switch {
	case p.offer != nil:
		return p.offer, nil
	case p.why != "":
		return nil, held(p.why)
	case !s.synced:
		return nil, mcs.ErrNotSynced
	case known:
		return nil, mcs.ErrNothingRendered
	}
	return nil, mcs.ErrUnknownPool
}

// Serving tells what each pool serves, by its name.
func (s *Shelf) Serving() map[string]v1alpha1.ServedPool {
	all := map[string]v1alpha1.ServedPool{}
	for pool, p := range s.all() {
		served := v1alpha1.ServedPool{Problem: p.why}
		switch {
		case p.offer != nil && p.offer.problem() == nil:
			served.Config = p.offer.Config()
		case p.why == "":
			served.Problem = mcs.ErrNothingRendered.Error()
		}
		all[pool] = served
	}
	return all
}

func (s *Shelf) all() map[string]place {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.pools)
}

func (s *Shelf) place(pool string) place { return s.all()[pool] }

func (s *Shelf) set(pool string, p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools[pool] = p
}
