package review

import (
	"cmp"
	"fmt"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

// LivePool returns a Pool from a rendered config on a cluster. The lineage of this Pool has values, but no positions in
// a repository. LivePool returns an error if it cannot read the config or an annotation of the config.
func LivePool(pool string, mc *mcfgv1.MachineConfig) (Pool, error) {
	config, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return Pool{}, fmt.Errorf("reading MachineConfig %s: %w", mc.Name, err)
	}
	marked, err := secretmask.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
	if err != nil {
		return Pool{}, fmt.Errorf("reading annotation %s of MachineConfig %s: %w", v1alpha1.SecretPathsAnnotation,
			mc.Name, err)
	}
	values := sync.OnceValue(func() *lineage.Lineage {
		layers, err := lineage.LayersOf([]*mcfgv1.MachineConfig{mc}, nil)
		if err != nil {
			return nil // This line is unreachable, because the config was parsed above.
		}
		return lineage.New(layers, lineage.Options{Pool: pool})
	})
	nodes, err := v1alpha1.ParseNodeConfigs(mc.Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil {
		return Pool{}, fmt.Errorf("reading MachineConfig %s: %w", mc.Name, err)
	}
	return Pool{
		Rendered: cmp.Or(nodes.Base, mc.Name), live: true, Config: config, Secrets: marked,
		Lineage: func(kind disruption.ChangeKind, name string) (lineage.Item, bool) {
			if values() == nil {
				return lineage.Item{}, false
			}
			// In a cluster's config the line that set an item is unknown, and only its value is known.
			item, err := values().Explain(kind, name)
			return item, err == nil
		},
	}, nil
}
