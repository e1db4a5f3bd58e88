package poolstate

import (
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/nodestate"
)

// NodeConfigs are the configs of a pool whose nodes have configs of their own, by the name of the pool's config. A
// decision is about configs of the pool only: a node that runs its own config of a pool's config runs the pool's config.
type NodeConfigs map[string]v1alpha1.NodeConfigs

// Own returns the config that a node runs if the pool runs config: its own config, or config itself.
func (c NodeConfigs) Own(config, node string) string {
	if of, ok := c[v1alpha1.ConfigName(config)]; ok && !of.IsZero() {
		_, secrets := v1alpha1.SplitConfigAt(config)
		return v1alpha1.ConfigAt(of.Of(node), secrets)
	}
	return config
}

// IsPools reports whether a config may be that of a whole pool. If nodes have configs of their own, only known ones are.
func (c NodeConfigs) IsPools(config string) bool {
	_, known := c[v1alpha1.ConfigName(config)]
	return known || len(c) == 0
}

// InTermsOf returns the nodes with the names of the pool's configs in place of their own configs. If a node's own config
// is that of several configs of the pool, the first of prefer counts. It does not change the given nodes.
func (c NodeConfigs) InTermsOf(nodes []nodestate.Node, prefer ...string) []nodestate.Node {
	if len(c) == 0 {
		return nodes
	}
	out := slices.Clone(nodes)
	for i := range out {
		n := &out[i]
		for _, name := range []*string{&n.Config.Current, &n.Config.Desired, &n.Failure.Config} {
			*name = c.ofPool(*name, n.Name, prefer)
		}
	}
	return out
}

// ofPool returns the config of the pool for the config of a node, or the config of the node if there is none.
func (c NodeConfigs) ofPool(config, node string, prefer []string) string {
	if config == "" {
		return config
	}
	own := c.Own(config, node)
	for _, p := range prefer {
		if p != "" && c.Own(p, node) == own {
			return p
		}
	}
	return config
}

// Preferred returns the configs of a pool in the order in which InTermsOf prefers them: the config that nodes are
// assigned, then the others that the record names.
func (f Facts) Preferred(assigned string) []string {
	r := f.Care.Record
	return []string{assigned, f.Target, r.Target(), r.LastHealthy(), r.ReturnsTo(), f.Care.Healthy}
}

// Assigned returns the config that the nodes of the pool are assigned according to its record: the target or, in a
// reverted pool, the config to which it returns.
func (f Facts) Assigned() string {
	if r := f.Care.Record; r.Verdict == v1alpha1.RolloutReverted && r.Target() == f.Target {
		return r.ReturnsTo()
	}
	return f.Target
}

// SetNodeConfigs sets the configs of single nodes, for the configs of the pool that the facts name. The function read
// returns the NodeConfigs of a rendered config.
func (f *Facts) SetNodeConfigs(read func(config string) v1alpha1.NodeConfigs) {
	for _, at := range f.Preferred("") {
		name := v1alpha1.ConfigName(at)
		if of := read(name); name != "" && !of.IsZero() {
			if f.Care.NodeConfigs == nil {
				f.Care.NodeConfigs = NodeConfigs{}
			}
			f.Care.NodeConfigs[name] = of
		}
	}
}

// SetNodes sets the nodes of the pool, in terms of the pool's configs.
func (f *Facts) SetNodes(nodes []nodestate.Node) {
	f.Nodes = f.Care.NodeConfigs.InTermsOf(nodes, f.Preferred(f.Assigned())...)
}
