package review

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// NodeSide has the configs of the nodes of a pool that have configs of their own.
type NodeSide struct {
	// Table has the facts and the documents of the nodes.
	Table machineconfig.NodeTable
	// References is the config of one node with references in place of the facts.
	References func(name string) (render.Rendered, error)
	// Node is the config of one node.
	Node func(name string) (render.Rendered, error)
	// Origin returns where the repository sets an item of such a config, as Pool.Origin does.
	Origin func(of render.Rendered, node string) func(kind disruption.ChangeKind, name string) string
	// Others are nodes with configs of their own that Table does not have, because their configs were not read.
	Others map[string]bool
	// Sizes returns the bytes of these configs on the API server, by name. A side of a cluster has the names alone.
	Sizes func() map[string]int
}

// NodeWrites are the configs of single nodes that the cluster stores for a change.
type NodeWrites struct {
	Configs int `json:"configs"`
	Bytes   int `json:"bytes"`
}

// minNodeWrites is from how many bytes a review names them. Rows cost the cluster memory also for nodes that it does
// not have.
const minNodeWrites = 1 << 20

// nodeWrites returns the configs that only head has; nil if they are small.
func nodeWrites(from, to Pool) *NodeWrites {
	if to.Nodes == nil || to.Nodes.Sizes == nil {
		return nil
	}
	var was map[string]int
	if from.Nodes != nil && from.Nodes.Sizes != nil {
		was = from.Nodes.Sizes()
	}
	var out NodeWrites
	for name, bytes := range to.Nodes.Sizes() {
		if _, has := was[name]; !has {
			out.Configs, out.Bytes = out.Configs+1, out.Bytes+bytes
		}
	}
	if out.Bytes < minNodeWrites {
		return nil
	}
	return &out
}

// nodes returns the configs of the pool's nodes; nil if all nodes run the config of the pool.
func (p PoolRendering) nodes() *NodeSide {
	if p.Rendered.Nodes.IsZero() {
		return nil
	}
	return &NodeSide{
		Table: p.Rendered.Table(), References: p.Rendered.References, Node: p.Rendered.Node,
		Origin: p.nodeOrigin, Sizes: p.Rendered.NodeSizes,
	}
}

// nodeOrigin returns where the repository sets an item of the config of a node. A document of the node, or a document
// that uses facts, overrides those of the pool.
func (p PoolRendering) nodeOrigin(of render.Rendered, node string) func(kind disruption.ChangeKind,
	name string) string {
	return func(kind disruption.ChangeKind, name string) string {
		winner := of.Winner(kind, name)
		for _, f := range p.places.fragments() {
			for _, d := range f.Documents {
				if d.Name == winner && (d.Node == "" || d.Node == node) {
					return within(d)[item{kind, name}]
				}
			}
		}
		return p.Origin(kind, name)
	}
}

// isOpaque reports whether the documents of the nodes are unknown, and only their configs are known.
func (s *NodeSide) isOpaque() bool { return s != nil && s.References == nil }

// table returns the table of nodes, which may have no nodes.
func (s *NodeSide) table() machineconfig.NodeTable {
	if s == nil {
		return machineconfig.NodeTable{}
	}
	return s.Table
}

// nodeChanges returns what a change does to the nodes of a pool that have configs of their own. Nodes whose changes are
// equal have one entry, such as the nodes with facts after a change of a document that all of them share.
func nodeChanges(name string, base, head Side, t terms) []PoolChange {
	from, to := base.Pools[name], head.Pools[name]
	if from.live || to.live || from.Nodes == nil && to.Nodes == nil || from.Rendered == "" || to.Rendered == "" {
		return nil
	}
	t.marks = trustedMarks(base, name)
	of := func(node string) PoolChange { return comparePool("", ofNode(from, node), ofNode(to, node), t) }
	var out []PoolChange
	at := map[string]int{}
	for _, same := range similarNodes(from, to) {
		change := PoolChange{}
		if first := same.nodes[0]; same.references {
			change = comparePool("", withReferences(from, first), withReferences(to, first), t)
		} else {
			change = of(first)
		}
		if change.Notices = nil; len(change.Items) == 0 && len(change.Refused) == 0 {
			continue
		}
		key := contentOf(change)
		if n, known := at[key]; known {
			out[n].Nodes = append(out[n].Nodes, same.nodes...)
			continue
		}
		at[key], change.Nodes = len(out), same.nodes
		out = append(out, change)
	}
	for i, change := range out {
		if len(change.Nodes) == 1 { // A reader sees the values of this node.
			out[i] = of(change.Nodes[0])
			out[i].Notices, out[i].Nodes = nil, change.Nodes
		}
		slices.Sort(out[i].Nodes)
		out[i].Pool = nodesText(name, out[i].Nodes)
	}
	return out
}

// contentOf returns a text that is equal for equal changes of different nodes.
func contentOf(c PoolChange) string {
	c.From, c.To = "", ""
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Sprintf("%+v", c) // There is no error, because a review is printed as JSON.
	}
	return string(text)
}

// similar are nodes with the same documents on each side. If references is true, their facts do not change, so that
// their changes are equal with references in place of the facts.
type similar struct {
	nodes      []string
	references bool
}

// ownNodes returns the nodes that have a config of their own on one of two sides.
func ownNodes(from, to Pool) map[string]bool {
	names := map[string]bool{}
	for _, side := range []*NodeSide{from.Nodes, to.Nodes} {
		for node := range side.table().Nodes {
			names[node] = true
		}
		if side != nil {
			maps.Copy(names, side.Others)
		}
	}
	return names
}

// similarNodes returns the nodes whose configs differ, in groups.
func similarNodes(from, to Pool) []similar {
	was, is := from.Nodes.table(), to.Nodes.table()
	names := map[string]bool{}
	for _, table := range []machineconfig.NodeTable{was, is} {
		for node := range table.Nodes {
			names[node] = true
		}
	}
	isSame := from.Rendered == to.Rendered && reflect.DeepEqual(was.Shared, is.Shared) && !from.Nodes.isOpaque()
	var out []similar
	at := map[string]int{}
	for _, node := range slices.Sorted(maps.Keys(names)) {
		a, b := was.Nodes[node], is.Nodes[node]
		if isSame && reflect.DeepEqual(a, b) {
			continue
		}
		if from.Nodes == nil || to.Nodes == nil || from.Nodes.isOpaque() || !reflect.DeepEqual(a.Facts, b.Facts) {
			out = append(out, similar{nodes: []string{node}})
			continue
		}
		key, err := json.Marshal([]any{a.Documents, b.Documents, a.Facts != nil})
		if n, known := at[string(key)]; known && err == nil {
			out[n].nodes = append(out[n].nodes, node)
			continue
		}
		at[string(key)] = len(out)
		out = append(out, similar{nodes: []string{node}, references: true})
	}
	return out
}

// nodesText names nodes of a pool in place of the pool alone.
func nodesText(pool string, nodes []string) string {
	const few = 3
	switch {
	case len(nodes) == 1:
		return fmt.Sprintf("%s (node %s)", pool, nodes[0])
	case len(nodes) <= few:
		return fmt.Sprintf("%s (nodes %s)", pool, strings.Join(nodes, ", "))
	}
	return fmt.Sprintf("%s (%d nodes)", pool, len(nodes))
}

// ofNode returns the config of one node as a pool of one node.
func ofNode(p Pool, node string) Pool {
	if p.Nodes == nil {
		return p
	}
	return withConfig(p, node, func() (render.Rendered, error) { return p.Nodes.Node(node) })
}

// withReferences returns the config of one node with references in place of its facts.
func withReferences(p Pool, node string) Pool {
	return withConfig(p, node, func() (render.Rendered, error) { return p.Nodes.References(node) })
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
