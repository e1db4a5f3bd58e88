package http

import (
	"sync"

	"github.com/bunsen-os/bunsen/mcs"
)

// Shelf holds the offer of every pool. It keeps what was put there last until something else is, whatever happens to
// the cluster. The zero value is not for use; make one with NewShelf. All methods may be called at once.
type Shelf struct {
	mu     sync.RWMutex
	pools  map[string]*Offer // nil: the pool exists and has nothing to serve
	synced bool
}

// NewShelf returns an empty shelf that is not ready.
func NewShelf() *Shelf { return &Shelf{pools: map[string]*Offer{}} }

// Put makes an offer its pool's. A nil offer says that the pool exists and has nothing to serve.
func (s *Shelf) Put(pool string, o *Offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools[pool] = o
}

// Remove forgets a pool.
func (s *Shelf) Remove(pool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pools, pool)
}

// SetReady says that every pool has been put once; from now on a pool that is not here does not exist.
func (s *Shelf) SetReady() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = true
}

// Ready tells whether SetReady was called.
func (s *Shelf) Ready() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

// Offer returns what a pool serves now. The error is mcs.ErrUnknownPool, mcs.ErrNothingRendered or mcs.ErrNotSynced.
func (s *Shelf) Offer(pool string) (*Offer, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, known := s.pools[pool]
	switch {
	case o != nil:
		return o, nil
	case !s.synced:
		return nil, mcs.ErrNotSynced
	case known:
		return nil, mcs.ErrNothingRendered
	}
	return nil, mcs.ErrUnknownPool
}
