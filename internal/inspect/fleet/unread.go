package fleet

import (
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// configsOfNodes returns the configs of single nodes that the rendered configs of a pool name. If nodes have configs of
// their own, and the user may not read MachineConfigs, they follow from the nodes while the controller counts all of
// them as updated. Otherwise, v.Undecided says that they are not known.
func configsOfNodes(c Cluster, v *Pool, nodes []poolstate.Node) func(config string) v1alpha1.NodeConfigs {
	target := unreadTarget(c, v.Object)
	if target.Nodes == 0 {
		return func(config string) v1alpha1.NodeConfigs { return nodeConfigs(c, config) }
	}
	status := v.Object.Status
	if status.Configuration.Name != target.Config || status.UpdatedMachineCount != status.MachineCount {
		v.Undecided = fmt.Sprintf("%d nodes of the pool have configs of their own, and you may not read "+
			"MachineConfigs, so which nodes are updated is not known here. The controller counts %d of %d. "+
			"ClusterRole bunsen-config-viewer grants that right", target.Nodes, status.UpdatedMachineCount,
			status.MachineCount)
		return func(string) v1alpha1.NodeConfigs { return v1alpha1.NodeConfigs{} }
	}
	of := v1alpha1.NodeConfigs{Base: target.Config}
	for i := range nodes {
		if at := nodes[i].Config; at.Current == at.Desired &&
			v1alpha1.RenderedPool(v1alpha1.ConfigName(at.Current)) == v.Object.Name {
			of.Set(nodes[i].Name, v1alpha1.ConfigName(at.Current))
		}
	}
	_, secrets := v1alpha1.SplitConfigAt(v.Facts.Target)
	of.Secrets, v.Facts.Secrets.Unread = secrets != "", true
	return func(config string) v1alpha1.NodeConfigs {
		if config == target.Config {
			return of
		}
		return v1alpha1.NodeConfigs{}
	}
}

// unreadTarget returns the record of a pool's target, if its nodes have configs of their own that were not read;
// otherwise zero.
func unreadTarget(c Cluster, pool *mcfgv1.MachineConfigPool) v1alpha1.PoolTarget {
	t, err := v1alpha1.ParsePoolTarget(pool.Annotations[v1alpha1.TargetAnnotation])
	if err != nil || t.Config != pool.Spec.Configuration.Name || c.Rendered == nil ||
		!nodeConfigs(c, t.Config).IsZero() {
		return v1alpha1.PoolTarget{}
	}
	return t
}
