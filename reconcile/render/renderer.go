package render

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// Renderer renders pools and remembers what the last call for each pool read, wrote and returned: one changed
// MachineConfig of many costs its own reading, a look at the keys of all, and putting the text together; nothing changed
// costs a look at each object. It gives the same answers as Merge; losing it loses time only. The zero value is ready,
// and safe for concurrent use.
//
// An object with a UID and a resource version is taken to hold the bytes, labels and annotations that it held under the
// same two before, where these lie at the same place in memory; all its other fields are compared. So do not write into
// the bytes of Spec.Config.Raw, or into the maps, of an object that came from the API server; to set new ones is fine. All
// other objects are known by a digest of their content.
type Renderer struct {
	mu    sync.Mutex
	pools map[string]*memory

	// limit replaces MaxSize in measurements.
	limit int
}

// memory is what one pool's last call left behind. It is never written to once it is there.
type memory struct {
	defaults Defaults
	rendered Rendered
	err      error

	// seen are the objects in the order in which they were given, place says where each name stands.
	seen  []sighting
	place map[string]int
	// twice are names that stand more than once.
	twice map[string]bool
	// known are the fragments by content.
	known map[digest]*fragment

	// merged are the inputs of rendered, the rest what is kept of merging them.
	merged   []input
	contests contests
	rest     ign.Config
	restOf   []*fragment
	limit    int
}

// Merge does what the function Merge does.
func (r *Renderer) Merge(pool string, mcs []*mcfgv1.MachineConfig, d Defaults) (Rendered, error) {
	last, others := r.recall(pool)
	if last.knows(mcs, d) {
		return last.rendered, last.err
	}
	m := &memory{defaults: d, limit: r.limit}
	m.look(mcs, append([]*memory{last}, others...))
	inputs, bad := m.inputs()
	switch {
	case len(bad) > 0:
		m.err = errors.Join(bad...)
	case last.err == nil && d == last.defaults && slices.Equal(inputs, last.merged):
		m.rendered, m.merged, m.contests, m.rest, m.restOf = last.rendered, last.merged, last.contests, last.rest, last.restOf
	default:
		m.merged = inputs
		m.err = m.merge(pool, inputs, last)
	}
	if m.err != nil {
		m.contests, m.rest, m.restOf, m.merged = contests{}, ign.Config{}, nil, nil // what a merge that failed decided was not judged
	}
	r.remember(pool, m)
	return m.rendered, m.err
}

// recall returns what is remembered of a pool, and of the others.
func (r *Renderer) recall(pool string) (last *memory, others []*memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range r.pools {
		if name != pool {
			others = append(others, m)
		}
	}
	if last = r.pools[pool]; last == nil {
		last = &memory{}
	}
	return last, others
}

func (r *Renderer) remember(pool string, m *memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pools == nil {
		r.pools = map[string]*memory{}
	}
	r.pools[pool] = m
}

// Forget drops what is remembered of a pool that is gone.
func (r *Renderer) Forget(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pools, pool)
}

// look reads all objects, as far as none of the memories knows them; the first is this pool's.
func (m *memory) look(mcs []*mcfgv1.MachineConfig, memories []*memory) {
	m.seen = make([]sighting, len(mcs))
	m.place, m.twice = make(map[string]int, len(mcs)), map[string]bool{}
	m.known = make(map[digest]*fragment, len(mcs))
	last := memories[0]
	for i, mc := range mcs {
		if _, again := m.place[mc.Name]; again {
			m.twice[mc.Name] = true
		}
		m.place[mc.Name] = i
		s := &m.seen[i]
		if was := last.sighted(i, mc.Name); was != nil && was.same(mc) {
			*s = *was
		} else {
			*s = sight(mc)
			s.fragment = m.known[s.digest]
			for n := 0; n < len(memories) && s.fragment == nil; n++ {
				s.fragment = memories[n].known[s.digest]
			}
			if s.fragment == nil {
				s.fragment = read(mc.Spec)
			}
		}
		m.known[s.digest] = s.fragment
	}
}

// inputs returns what was seen in the order of merging, and every problem of it.
func (m *memory) inputs() (inputs []input, bad []error) {
	if len(m.seen) == 0 {
		return nil, []error{errors.New("no MachineConfigs are selected: label some for the pool, or change its machineConfigSelector")}
	}
	order := make([]*sighting, len(m.seen))
	for i := range m.seen {
		order[i] = &m.seen[i]
	}
	slices.SortStableFunc(order, func(a, b *sighting) int { return compare(a.worker, b.worker, a.name, b.name) })
	inputs = make([]input, len(order))
	for i, s := range order {
		if !s.labelled {
			bad = append(bad, fmt.Errorf("MachineConfig %s: it has no labels, so that no pool can mean it: label it %s=<role>", s.name, RoleLabel))
		}
		if m.twice[s.name] {
			bad = append(bad, fmt.Errorf("MachineConfig %s: there are two of this name: rename one", s.name))
			delete(m.twice, s.name) // once is enough
		}
		inputs[i] = input{s.name, s.worker, s.generated, s.fragment}
	}
	for _, in := range inputs {
		if err := blame(in.name, in.bad); err != nil {
			bad = append(bad, err)
		}
	}
	return inputs, bad
}
