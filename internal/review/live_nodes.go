package review

import (
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodetable"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// WithLiveNodes adds the configs of single nodes to a pool of LivePool. The parameter live has the MachineConfigs of
// the cluster by name. If the table of nodes on the cluster gives exactly the configs that the nodes run, a review
// knows what nodes have in common. Otherwise it compares the config of each node.
func WithLiveNodes(p Pool, target *mcfgv1.MachineConfig, live map[string]*mcfgv1.MachineConfig) (Pool, error) {
	p.live = false
	nodes, err := v1alpha1.ParseNodeConfigs(target.Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil {
		return Pool{}, fmt.Errorf("reading MachineConfig %s: %w", target.Name, err)
	}
	if nodes.IsZero() {
		return p, nil
	}
	pool := v1alpha1.RenderedPool(target.Name)
	if table := live[nodetable.Name(pool)]; table != nil {
		r, err := render.WithTable(render.Rendered{Pool: pool, Name: nodes.Base, Config: p.Config, Spec: target.Spec},
			table)
		if err == nil && r.Nodes.String() == nodes.String() {
			p.Nodes = &NodeSide{Table: r.Table(), References: r.References, Node: r.Node, Sizes: r.NodeSizes}
			return p, nil
		}
	}
	sizes := map[string]int{}
	side := &NodeSide{
		Table: nodetable.Table{Pool: pool, Nodes: map[string]nodetable.Node{}},
		Sizes: func() map[string]int { return sizes },
	}
	for node := range nodes.Nodes {
		side.Table.Nodes[node], sizes[nodes.Of(node)] = nodetable.Node{}, 0
		if live[nodes.Of(node)] == nil {
			return Pool{}, fmt.Errorf("reading MachineConfigPool %s: the config %s of node %s is not on the cluster",
				pool, nodes.Of(node), node)
		}
	}
	side.Node = func(name string) (render.Rendered, error) {
		mc := target
		if own := live[nodes.Of(name)]; own != nil {
			mc = own
		}
		config, err := machineconfig.Parse(mc.Spec)
		return render.Rendered{Pool: pool, Name: nodes.Of(name), Config: config, Spec: mc.Spec}, err
	}
	p.Nodes = side
	return p, nil
}
