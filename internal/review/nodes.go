package review

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/nodetable"
	"github.com/bunsen-os/bunsen/internal/policy"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// NodeSide has the configs of the nodes of a pool that have configs of their own.
type NodeSide struct {
	// Table has the facts and the documents of the nodes.
	Table nodetable.Table
	// Shared is the config of a node with facts and without documents, with references in place of the facts.
	Shared func() (render.Rendered, error)
	// Node is the config of one node.
	Node func(name string) (render.Rendered, error)
	// Origin returns where the repository sets an item of such a config, as Pool.Origin does.
	Origin func(of render.Rendered, node string) func(kind policy.ChangeKind, name string) string
}

// nodes returns the configs of the pool's nodes; nil if all nodes run the config of the pool.
func (p PoolRendering) nodes() *NodeSide {
	if p.Rendered.Nodes.IsZero() {
		return nil
	}
	return &NodeSide{Table: p.Rendered.Table(), Shared: p.Rendered.Shared, Node: p.Rendered.Node, Origin: p.nodeOrigin}
}

// nodeOrigin returns where the repository sets an item of the config of a node. A document of the node, or a document
// that uses facts, overrides those of the pool.
func (p PoolRendering) nodeOrigin(of render.Rendered, node string) func(kind policy.ChangeKind, name string) string {
	return func(kind policy.ChangeKind, name string) string {
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

// table returns the table of nodes, which may have no nodes.
func (s *NodeSide) table() nodetable.Table {
	if s == nil {
		return nodetable.Table{}
	}
	return s.Table
}

// nodeChanges returns what a change does to the nodes of a pool that have configs of their own. A change of the documents
// that all of them share is one entry. A node whose facts or documents change has an entry of its own.
func nodeChanges(name string, base, head Side, t terms) []PoolChange {
	from, to := base.Pools[name], head.Pools[name]
	if from.live || to.live || from.Nodes == nil && to.Nodes == nil || from.Rendered == "" || to.Rendered == "" {
		return nil
	}
	t.marks = trustedMarks(base, name)
	same, changed := changedNodes(from.Nodes.table(), to.Nodes.table())
	var out []PoolChange
	add := func(from, to Pool, nodes ...string) {
		change := comparePool(nodesText(name, nodes), from, to, t)
		change.Notices, change.Nodes = nil, nodes
		if len(change.Items) > 0 || len(change.Refused) > 0 {
			out = append(out, change)
		}
	}
	if len(same) > 0 {
		add(ofShared(from), ofShared(to), same...)
	}
	for _, node := range changed {
		add(ofNode(from, node), ofNode(to, node), node)
	}
	return out
}

// changedNodes returns the nodes whose facts or documents differ, or that have documents of their own, and the other ones.
func changedNodes(from, to nodetable.Table) (same, changed []string) {
	names := map[string]bool{}
	for _, table := range []nodetable.Table{from, to} {
		for node := range table.Nodes {
			names[node] = true
		}
	}
	for _, node := range slices.Sorted(maps.Keys(names)) {
		was, is := from.Nodes[node], to.Nodes[node]
		if reflect.DeepEqual(was, is) && len(is.Documents) == 0 {
			same = append(same, node)
		} else {
			changed = append(changed, node)
		}
	}
	return same, changed
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
	return fmt.Sprintf("%s (%d nodes with facts)", pool, len(nodes))
}

// ofNode returns the config of one node as a pool of one node.
func ofNode(p Pool, node string) Pool {
	if p.Nodes == nil {
		return p
	}
	return withConfig(p, node, func() (render.Rendered, error) { return p.Nodes.Node(node) })
}

// ofShared returns the config that all nodes with facts have in common.
func ofShared(p Pool) Pool {
	if p.Nodes == nil {
		return p
	}
	return withConfig(p, "", p.Nodes.Shared)
}

// withConfig replaces the config of a pool. There is no error, because the same config was merged for its name before.
func withConfig(p Pool, node string, read func() (render.Rendered, error)) Pool {
	r, err := read()
	if err != nil {
		return p
	}
	p.Origin = p.Nodes.Origin(r, node)
	p.Rendered, p.Config, p.Lineage, p.Nodes = r.Name, r.Config, nil, nil
	return p
}
