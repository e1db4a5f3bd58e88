package lineage

import (
	"fmt"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodetable"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/ignition"
)

// LayersOfNode returns the layers of one node in a repository: those of its pool, then the documents with its facts,
// and then its own documents. For a node without facts and documents, these are the layers of the pool. The parameter r
// is the rendered config of the pool.
func LayersOfNode(result transpile.Result, r render.Rendered, node string) ([]Layer, error) {
	layers, err := LayersOfPool(result, r.Pool)
	if err != nil || node == "" {
		return layers, err
	}
	documents, err := r.Table().For(node)
	if err != nil {
		return nil, fmt.Errorf("reading the documents of node %s: %w", node, err)
	}
	for _, d := range documents {
		spec, err := ignition.UpgradeSpec(d.Spec)
		if err != nil {
			return nil, fmt.Errorf("reading document %s of node %s: %w", d.Name, node, err)
		}
		config, err := machineconfig.Parse(spec)
		if err != nil {
			return nil, fmt.Errorf("reading document %s of node %s: %w", d.Name, node, err)
		}
		layer := Layer{Name: d.Name, Config: config}
		if f, ok := documentOf(result, r.Pool, node, d.Name); ok {
			layer.Origin, layer.Source = f.Origin, f.File
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

// documentOf returns the document of a node by its name: its own one, or one that uses facts.
func documentOf(result transpile.Result, pool, node, name string) (transpile.Fragment, bool) {
	var shared transpile.Fragment
	for _, f := range result.Fragments {
		if nodetable.PoolOf(f.MachineConfig) != pool {
			continue
		}
		for _, d := range f.Documents {
			switch {
			case d.Name != name:
			case d.Node == node:
				return d, true
			case d.Node == "":
				shared = d
			}
		}
	}
	return shared, shared.Name != ""
}

// RowOf returns where the repository has the facts or the documents of a node; empty if it has neither.
func RowOf(result transpile.Result, pool, node string) string {
	for _, f := range result.Fragments {
		if at, ok := f.Nodes[node]; ok && nodetable.PoolOf(f.MachineConfig) == pool {
			return at.String()
		}
	}
	return ""
}
