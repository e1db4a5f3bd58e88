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
		return compare(isWorker(a), isWorker(b), a.Name, b.Name)
	})
}

func isWorker(mc *mcfgv1.MachineConfig) bool { return mc.Labels[RoleLabel] == "worker" }

// compare orders two by their layer and their name.
func compare(aWorker, bWorker bool, a, b string) int {
	switch {
	case aWorker == bWorker:
		return cmp.Compare(a, b)
	case aWorker:
		return -1
	}
	return 1
}
