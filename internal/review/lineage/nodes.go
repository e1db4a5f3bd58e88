package lineage

import (
	"fmt"
	"slices"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
	transpilekinds "github.com/bunsen-os/bunsen/transpile/kinds"
)

// LayersOfNode returns the layers of one node in a repository: those of its pool, then the documents with its facts,
// and then its own documents. For a node without facts and documents, these are the layers of the pool. The parameter r
// is the rendered config of the pool.
func LayersOfNode(result transpile.Result, r render.Rendered, node string) ([]Layer, error) {
	layers, err := LayersOfPool(result, r.Pool)
	if err != nil || node == "" {
		return layers, err
	}
	own, err := LayersOfDocuments(r.Table(), node)
	if err != nil {
		return nil, err
	}
	for _, layer := range own {
		if f, ok := documentOf(result, r.Pool, node, layer.Name); ok {
			layer.Origin, layer.Source = f.Origin, f.File
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

// LayersOfDocuments returns the documents that a table has for a node, in the order of merging: those with its facts,
// and then its own. They are merged after the layers of the pool. A node that the table does not have has none.
func LayersOfDocuments(table machineconfig.NodeTable, node string) ([]Layer, error) {
	documents, err := table.For(node)
	if err != nil {
		return nil, fmt.Errorf("reading the documents of node %s: %w", node, err)
	}
	facts := map[string]bool{}
	for _, d := range slices.Concat(table.Shared, table.Nodes[node].Documents) {
		found, err := machineconfig.FindFacts(d.Spec)
		facts[d.Name+"\n"+d.File] = err == nil && slices.ContainsFunc(found.Facts, func(fact string) bool {
			return fact != machineconfig.NameFact
		})
	}
	var layers []Layer
	for _, d := range documents {
		spec, err := transpilekinds.UpgradeSpec(d.Spec)
		if err != nil {
			return nil, fmt.Errorf("reading document %s of node %s: %w", d.Name, node, err)
		}
		config, err := machineconfig.Parse(spec)
		if err != nil {
			return nil, fmt.Errorf("reading document %s of node %s: %w", d.Name, node, err)
		}
		layers = append(layers, Layer{
			Name: d.Name, Config: config, Source: d.File, OfNode: true, Facts: facts[d.Name+"\n"+d.File],
		})
	}
	return layers, nil
}

// documentOf returns the document of a node by its name: its own one, or one that uses facts.
func documentOf(result transpile.Result, pool, node, name string) (transpile.Fragment, bool) {
	var shared transpile.Fragment
	for _, f := range result.Fragments {
		if machineconfig.PoolOf(f.MachineConfig) != pool {
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
		if at, ok := f.Nodes[node]; ok && machineconfig.PoolOf(f.MachineConfig) == pool {
			return at.String()
		}
	}
	return ""
}
