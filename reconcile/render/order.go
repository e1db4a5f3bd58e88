package render

import (
	"cmp"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// RoleLabel is the label with the role of a MachineConfig.
const RoleLabel = "machineconfiguration.openshift.io/role"

// generatedBy marks a MachineConfig that a controller wrote, whose images the cluster's images override.
const generatedBy = "machineconfiguration.openshift.io/generated-by-controller-version"

// Order returns the MachineConfigs in the order of merging, in which later MachineConfigs override earlier
// MachineConfigs. First come the MachineConfigs of the role worker, by name, then all other MachineConfigs, by name. So
// a custom pool's 00-infra overrides the inherited 99-worker.
func Order(mcs []*mcfgv1.MachineConfig) []*mcfgv1.MachineConfig {
	return slices.SortedStableFunc(slices.Values(mcs), func(a, b *mcfgv1.MachineConfig) int {
		return compare(isWorker(a), isWorker(b), a.Name, b.Name)
	})
}

func isWorker(mc *mcfgv1.MachineConfig) bool { return mc.Labels[RoleLabel] == "worker" }

// compare compares two MachineConfigs by their layer and their name.
func compare(aWorker, bWorker bool, a, b string) int {
	switch {
	case aWorker == bWorker:
		return cmp.Compare(a, b)
	case aWorker:
		return -1
	}
	return 1
}
