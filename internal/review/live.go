package review

import (
	"fmt"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/policy"
	"github.com/bunsen-os/bunsen/internal/policy/secret"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
)

// LivePool returns what a pool renders to from a rendered config on a cluster. Its lineage has values, but no positions in
// a repository. The error names a config, or its annotation, that cannot be read.
func LivePool(pool string, mc *mcfgv1.MachineConfig) (Pool, error) {
	config, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return Pool{}, fmt.Errorf("reading MachineConfig %s: %w", mc.Name, err)
	}
	marked, err := secret.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
	if err != nil {
		return Pool{}, fmt.Errorf("reading annotation %s of MachineConfig %s: %w", v1alpha1.SecretPathsAnnotation, mc.Name, err)
	}
	values := sync.OnceValue(func() *lineage.Lineage {
		layers, err := lineage.LayersOf([]*mcfgv1.MachineConfig{mc}, nil)
		if err != nil {
			return nil // unreachable: it was parsed above
		}
		return lineage.New(layers, lineage.Options{Pool: pool})
	})
	return Pool{Rendered: mc.Name, Config: config, Secrets: marked, Lineage: func(kind policy.ChangeKind, name string) (lineage.Item, bool) {
		if values() == nil {
			return lineage.Item{}, false
		}
		item, err := values().Explain(kind, name) // the line that set it is unknown here, only its value
		return item, err == nil
	}}, nil
}
