package review

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile"
)

// ClusterState is the content of a side's cluster/ directory.
type ClusterState struct {
	// Policy is the disruption policy, with the defaults of the fields that the repository does not set.
	Policy disruption.Policy
	// Pools are the MachineConfigPools of the directory cluster/.
	Pools []mcfgv1.MachineConfigPool
	// Objects are all objects of the directory cluster/.
	Objects []transpile.ClusterObject
}

// ClusterChanges are the changes in the directory cluster/ that no rendered config has.
type ClusterChanges struct {
	// Policy names each rule of the disruption policy that changes: `/etc/motd: None → Reboot`.
	Policy []string `json:"policy,omitempty"`
	// MachineConfigPools names changes of these objects that are in no rendered config: the nodes that a pool selects,
	// and its maxUnavailable.
	MachineConfigPools []string `json:"machineConfigPools,omitempty"`
	// ClusterObjects names changes in the other fields of the objects of cluster/, and added or removed objects:
	// RolloutPolicies, DriftPolicies, PinnedImageSets, MachineConfigPools and the MachineConfiguration.
	ClusterObjects []string `json:"clusterObjects,omitempty"`
	// MovesNodes reports whether nodes may change pools.
	MovesNodes bool `json:"-"`
}

// CompareCluster returns what differs between the cluster/ directories of both sides.
func CompareCluster(base, head ClusterState) ClusterChanges {
	out := ClusterChanges{
		Policy: comparePolicies(base.Policy, head.Policy),
		ClusterObjects: CompareObjects(base.Objects,
			head.Objects),
	}
	out.MachineConfigPools, out.MovesNodes = comparePools(base.Pools, head.Pools)
	return out
}
