package render

import (
	"cmp"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// RoleLabel is the label that says which role a MachineConfig was written for.
const RoleLabel = "machineconfiguration.openshift.io/role"

// generatedBy marks a MachineConfig that a controller wrote, whose images give way to the cluster's.
const generatedBy = "machineconfiguration.openshift.io/generated-by-controller-version"

// Order returns the MachineConfigs in the order in which they are merged, later ones winning: those of role worker by
// name, then all others by name. So a custom pool's 00-infra wins over the 99-worker that it inherits.
func Order(mcs []*mcfgv1.MachineConfig) []*mcfgv1.MachineConfig {
	return slices.SortedStableFunc(slices.Values(mcs), func(a, b *mcfgv1.MachineConfig) int {
		return cmp.Or(cmp.Compare(layer(a), layer(b)), cmp.Compare(a.Name, b.Name))
	})
}

func layer(mc *mcfgv1.MachineConfig) int {
	if mc.Labels[RoleLabel] == "worker" {
		return 0
	}
	return 1
}
