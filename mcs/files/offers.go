package files

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Shelf is where offers are put; see package shelf.
type Shelf interface {
	// Put makes a config its pool's. After an error the pool keeps the one before.
	Put(pool string, rendered *mcfgv1.MachineConfig) error
	// Remove forgets a pool.
	Remove(pool string)
	// SetReady says that all pools are known.
	SetReady()
}

// Offers keeps a shelf at what a whole set of configs says. Make one with NewOffers; its method may be called at once.
type Offers struct {
	shelf Shelf
	log   *slog.Logger

	mu    sync.Mutex
	names map[string]string // pool → config that was put last
}

// NewOffers fills a shelf that nobody else fills.
func NewOffers(shelf Shelf, log *slog.Logger) *Offers {
	return &Offers{shelf: shelf, log: log, names: map[string]string{}}
}

// Set makes these configs, by pool, all that is offered: each pool's is put, and pools that are not there are forgotten.
// From the first time on the shelf is ready. The error joins the pools whose config cannot be served; they keep the one
// before, and the others are served.
func (o *Offers) Set(configs map[string]*mcfgv1.MachineConfig) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var bad []error
	for _, pool := range slices.Sorted(maps.Keys(configs)) {
		rendered := configs[pool]
		if err := o.shelf.Put(pool, rendered); err != nil {
			bad = append(bad, fmt.Errorf("offering %s to pool %s: %w", rendered.Name, pool, err))
			o.names[pool] += "" // known, whatever it serves
			continue
		}
		if o.names[pool] != rendered.Name {
			o.log.Info("serving", "pool", pool, "config", rendered.Name, "commit", rendered.Annotations[v1alpha1.RevisionAnnotation])
			o.names[pool] = rendered.Name
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(o.names)) {
		if configs[pool] == nil {
			o.log.Info("the pool is gone", "pool", pool)
			o.shelf.Remove(pool)
			delete(o.names, pool)
		}
	}
	o.shelf.SetReady()
	return errors.Join(bad...)
}

// inForce says whether anything is offered.
func (o *Offers) inForce() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, config := range o.names {
		if config != "" {
			return "what is served already"
		}
	}
	return "nothing: there was no good config yet"
}
