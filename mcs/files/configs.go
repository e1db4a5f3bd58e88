package files

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// SetConfigs serves exactly the given configs, by pool, and removes all other pools. After that, the pools count as
// synced. The error joins the problems of the configs that cannot be served. The pools of these configs continue to
// serve the previous config. No other code may change the pools.
func SetConfigs(pools *mcs.Pools, configs map[string]*mcfgv1.MachineConfig, log *slog.Logger) error {
	before := pools.Status()
	var bad []error
	for _, pool := range slices.Sorted(maps.Keys(configs)) {
		rendered := configs[pool]
		if err := pools.Set(pool, rendered); err != nil {
			bad = append(bad, fmt.Errorf("serving config %s to pool %s: %w", rendered.Name, pool, err))
		} else if before[pool].Config != rendered.Name {
			log.Info("serving", "pool", pool, "config", rendered.Name, "commit",
				rendered.Annotations[v1alpha1.RevisionAnnotation])
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(before)) {
		if configs[pool] == nil {
			log.Info("the pool was removed", "pool", pool)
			pools.Remove(pool)
		}
	}
	pools.SetSynced()
	return errors.Join(bad...)
}
