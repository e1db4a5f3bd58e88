package review

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// WithLiveNodes adds the configs of single nodes to a pool of LivePool. The parameter live has the MachineConfigs of
// the cluster by name. If the cluster's table of nodes gives exactly the configs that they run, a review knows what
// nodes have in common; otherwise it compares each.
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
	if table := live[machineconfig.FactName(pool)]; table != nil {
		r, err := render.WithTable(render.Rendered{Pool: pool, Name: nodes.Base, Config: p.Config, Spec: target.Spec},
			table)
		if err == nil && r.Nodes.String() == nodes.String() {
			p.Nodes = &NodeSide{Table: r.Table(), References: r.References, Node: r.Node, Sizes: r.NodeSizes}
			return p, nil
		}
	}
	own := make([]string, 0, len(nodes.Nodes))
	for node := range nodes.Nodes {
		own = append(own, node)
	}
	return withConfigsOf(p, target, nodes, live, own)
}

func withConfigsOf(p Pool, target *mcfgv1.MachineConfig, nodes v1alpha1.NodeConfigs,
	live map[string]*mcfgv1.MachineConfig, read []string,
) (Pool, error) {
	pool := v1alpha1.RenderedPool(target.Name)
	side := &NodeSide{
		Table: machineconfig.NodeTable{Pool: pool, Nodes: map[string]machineconfig.NodeFacts{}},
		Sizes: namesOf(nodes),
	}
	for _, node := range read {
		own := nodes.Of(node)
		if live[own] == nil && own != nodes.Base {
			return Pool{}, fmt.Errorf("reading MachineConfigPool %s: the config %s of node %s is not on the cluster",
				pool, own, node)
		}
		side.Table.Nodes[node] = machineconfig.NodeFacts{}
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

// namesOf leaves the sizes out.
func namesOf(nodes v1alpha1.NodeConfigs) func() map[string]int {
	return func() map[string]int {
		out := map[string]int{}
		for _, name := range nodes.All() {
			if name != nodes.Base {
				out[name] = 0
			}
		}
		return out
	}
}

// LiveChange is the change from one config of a pool to another one, both of a cluster.
type LiveChange struct {
	pools   [2]Pool
	targets [2]*mcfgv1.MachineConfig
	nodes   [2]v1alpha1.NodeConfigs
}

// NewLiveChange reads both configs.
func NewLiveChange(pools [2]string, targets [2]*mcfgv1.MachineConfig) (LiveChange, error) {
	c := LiveChange{targets: targets}
	var err error
	for i, mc := range targets {
		if c.pools[i], err = LivePool(pools[i], mc); err != nil {
			return c, err
		}
		c.pools[i].live = false
		if c.nodes[i], err = v1alpha1.ParseNodeConfigs(mc.Annotations[v1alpha1.NodeConfigsAnnotation]); err != nil {
			return c, fmt.Errorf("reading MachineConfig %s: %w", mc.Name, err)
		}
	}
	return c, nil
}

func (c LiveChange) configOf(side int, node string) string {
	if c.nodes[side].IsZero() {
		return c.targets[side].Name
	}
	return c.nodes[side].Of(node)
}

// ChangedNodes returns the nodes with configs of their own whose configs differ, sorted.
func (c LiveChange) ChangedNodes() (changed []string) {
	for node := range c.own() {
		if c.configOf(0, node) != c.configOf(1, node) {
			changed = append(changed, node)
		}
	}
	slices.Sort(changed)
	return changed
}

// own returns the nodes with a config of their own on one side.
func (c LiveChange) own() map[string]bool {
	own := map[string]bool{}
	for _, nodes := range c.nodes {
		for node := range nodes.Nodes {
			own[node] = true
		}
	}
	return own
}

// ConfigsOf returns the names of the configs of nodes on both sides, each once.
func (c LiveChange) ConfigsOf(nodes []string) (out []string) {
	had := map[string]bool{c.targets[0].Name: true, c.targets[1].Name: true}
	for _, node := range nodes {
		for side := range c.nodes {
			if name := c.configOf(side, node); !had[name] && name != c.nodes[side].Base {
				had[name] = true
				out = append(out, name)
			}
		}
	}
	return out
}

// With returns both sides with the configs of some of the changed nodes, from the MachineConfigs of ConfigsOf by name.
// Of the other nodes, they know only that they have configs of their own.
func (c LiveChange) With(read []string, live map[string]*mcfgv1.MachineConfig) (from, to Pool, err error) {
	pools := c.pools
	for i := range pools {
		if c.nodes[i].IsZero() {
			continue
		}
		if pools[i], err = withConfigsOf(pools[i], c.targets[i], c.nodes[i], live, read); err != nil {
			return from, to, err
		}
		pools[i].Nodes.Others = c.own()
	}
	return pools[0], pools[1], nil
}

// WithTable returns both sides with the cluster's table of nodes, if both configs were rendered from it. No config of a
// single node is read then: nodes with equal documents change alike.
func (c LiveChange) WithTable(table *mcfgv1.MachineConfig) (from, to Pool, ok bool) {
	pools := c.pools
	for i, mc := range c.targets {
		inputs := map[string]string{}
		if c.nodes[i].IsZero() || json.Unmarshal([]byte(mc.Annotations[v1alpha1.InputsAnnotation]), &inputs) != nil ||
			inputs[table.Name] == "" || inputs[table.Name] != table.Annotations[v1alpha1.DigestAnnotation] {
			return from, to, false
		}
		r, err := render.WithNodes(render.Rendered{
			Pool: v1alpha1.RenderedPool(mc.Name), Name: c.nodes[i].Base, Config: pools[i].Config, Spec: mc.Spec,
		}, table, c.nodes[i])
		if err != nil {
			return from, to, false
		}
		// A user may have edited the table, so one node is checked.
		node := slices.Min(slices.Collect(maps.Keys(c.nodes[i].Nodes)))
		if own, err := r.Node(node); err != nil || own.Name != c.nodes[i].Of(node) {
			return from, to, false
		}
		pools[i].Nodes = &NodeSide{
			Table: r.Table(), References: r.References, Node: r.Node, Sizes: namesOf(c.nodes[i]),
		}
	}
	return pools[0], pools[1], true
}

// LivePool returns a Pool from a rendered config on a cluster. Its lineage has values, but no positions in a
// repository. The error is about the config or an annotation of it.
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

// NodeSide has the configs of the nodes of a pool that have configs of their own.
type NodeSide struct {
	Table machineconfig.NodeTable
	// References is the config of one node, with references in place of its facts.
	References func(name string) (render.Rendered, error)
	// Node is the config of one node.
	Node func(name string) (render.Rendered, error)
	// Origin returns where the repository sets an item of such a config, as Pool.Origin does.
	Origin func(of render.Rendered, node string) func(kind disruption.ChangeKind, name string) string
	// Others have configs of their own that Table does not have, because they were not read.
	Others map[string]bool
	// Sizes in bytes on the API server, by config. A side of a cluster has the names alone.
	Sizes func() map[string]int
}

// NodeWrites are the configs of single nodes that the cluster stores for a change.
type NodeWrites struct {
	Configs int `json:"configs"`
	Bytes   int `json:"bytes"`
}

// minNodeWrites are so many bytes that a review names them: rows cost memory also for nodes that do not exist.
const minNodeWrites = 1 << 20

// nodes is nil if all nodes run the config of the pool.
func (p PoolRendering) nodes() *NodeSide {
	if p.Rendered.Nodes.IsZero() {
		return nil
	}
	return &NodeSide{
		Table: p.Rendered.Table(), References: p.Rendered.References, Node: p.Rendered.Node,
		Origin: p.nodeOrigin, Sizes: p.Rendered.NodeSizes,
	}
}

// nodeOrigin returns where the repository sets an item of a node's config.
func (p PoolRendering) nodeOrigin(of render.Rendered, node string) func(disruption.ChangeKind, string) string {
	return p.places.ofNode(of, node).of
}

// isOpaque reports whether only the configs of the nodes are known, not their documents.
func (s *NodeSide) isOpaque() bool { return s != nil && s.References == nil }

// table returns the table of nodes, which may have no nodes.
func (s *NodeSide) table() machineconfig.NodeTable {
	if s == nil {
		return machineconfig.NodeTable{}
	}
	return s.Table
}

// similar are nodes with the same documents on each side. references: their facts do not change, so that their changes
// are equal with references in place of the facts.
type similar struct {
	nodes      []string
	references bool
}

// withConfig replaces the config of a pool. There is no error, because the same config was merged for its name before.
func withConfig(p Pool, node string, read func() (render.Rendered, error)) Pool {
	r, err := read()
	if err != nil {
		return p
	}
	if p.Nodes.Origin != nil {
		p.Origin = p.Nodes.Origin(r, node)
	}
	p.Rendered, p.Config, p.Lineage, p.Nodes, p.Sizes = r.Name, r.Config, nil, nil, p.Sizes.With(r.Contents)
	return p
}
