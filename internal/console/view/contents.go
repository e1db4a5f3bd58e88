package view

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/transpile/kinds"
)

// Contents are the items of one rendered config.
type Contents struct {
	// Trace says who requested the config, and which MachineConfigs it contains.
	Trace history.Trace
	// Items of the config. Those that nodes of a pool have from documents of their own follow, unless Unread.
	Items []Item
	// Note says why positions are not known; empty if they are, or if the caller asked for none.
	Note string
	// Unread: nodes of the pool have configs of their own, and the cluster's table of nodes is no longer that of these
	// configs, so their items are in their configs alone.
	Unread bool
}

// ContentLines are the positions of items in a repository.
type ContentLines struct {
	// At maps an item, such as `file /etc/motd`, to its position `file:line:col`.
	At map[string]string
	// Note says why positions are not known, or what differs between the config and the repository; empty if nothing
	// does.
	Note string
}

// Item is one item of a rendered config. A program may search its texts: no text has a secret.
type Item struct {
	Kind string
	// Name is a path or a name; without one, the value.
	Name string
	// of the config, with the name as the config has it, which may contain a secret
	key history.ItemKey
	// Origin says which documents set the item, the last one first.
	Origin string
	// Nodes have the item from these documents, sorted. It is empty for an item of the config itself, which all nodes
	// have for which no other entry has the item.
	Nodes []string
}

// ContentsOf reads the items of a rendered config. The parameter inputs has its MachineConfigs that the cluster still
// has. The positions of items may be empty.
func ContentsOf(mc *mcfgv1.MachineConfig, t history.Trace, inputs []*mcfgv1.MachineConfig,
	lines ContentLines,
) (Contents, error) {
	marked, err := secretmask.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
	if err != nil {
		return Contents{}, fmt.Errorf("reading annotation %s of MachineConfig %s: %w", v1alpha1.SecretPathsAnnotation,
			mc.Name, err)
	}
	nodes, err := v1alpha1.ParseNodeConfigs(mc.Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil {
		return Contents{}, fmt.Errorf("reading MachineConfig %s: %w", mc.Name, err)
	}
	options := lineage.Options{Pool: t.Rendered.Pool, Mask: marked.Mask}
	of, err := lineage.LayersOf([]*mcfgv1.MachineConfig{mc}, nil)
	if err != nil {
		return Contents{}, err
	}
	layers, err := lineage.LayersOf(inputs, nil)
	if err != nil {
		return Contents{}, err
	}
	r := reader{trace: t, texts: t.InputTexts(), options: options, base: lineage.New(layers, options)}
	if r.table, err = tableOf(inputs, t.Rendered.Pool); err != nil {
		return Contents{}, err
	}
	out := Contents{Trace: t, Note: lines.Note}
	by := r.base
	if mc.Annotations[v1alpha1.VariantOfAnnotation] != "" {
		own, err := r.documents(nodeOf(mc, r.table))
		if err != nil {
			return Contents{}, err
		}
		by = lineage.New(slices.Concat(layers, own), options)
	}
	for _, n := range lineage.New(of, options).NamesOf() {
		if n.Kind == disruption.KindIgnition {
			continue // The skipped items are the version of the format, and settings of the first boot.
		}
		if n.Kind == disruption.KindKernelType && n.Shown == "default" {
			continue // Nobody set it.
		}
		origin := r.origin(by.Setters(n))
		if at := lines.At[string(n.Kind)+" "+n.Shown]; at != "" {
			file, _, _ := strings.Cut(at, ":")
			origin = at + "   " + strings.TrimSuffix(origin, "   "+file) // The position has the file already.
		}
		out.Items = append(out.Items, Item{
			Kind: n.Noun(), Name: n.Shown, Origin: origin, key: history.ItemKey{Kind: n.Kind, Name: n.Name},
		})
	}
	if nodes.IsZero() {
		return out, nil
	}
	if out.Unread = r.table == nil || r.input().Changed; out.Unread {
		return out, nil
	}
	own, err := r.ofNodes(slices.Sorted(maps.Keys(nodes.Nodes)))
	out.Items = append(out.Items, own...)
	return out, err
}

// tableOf returns the table of nodes of a pool; nil if there is none.
func tableOf(inputs []*mcfgv1.MachineConfig, pool string) (*machineconfig.NodeTable, error) {
	for _, mc := range inputs {
		if machineconfig.PoolOf(mc) != pool {
			continue
		}
		config, err := machineconfig.Parse(mc.Spec)
		if err != nil {
			return nil, fmt.Errorf("reading MachineConfig %s: %w", mc.Name, err)
		}
		table, err := machineconfig.ReadNodeTable(pool, config)
		return &table, err
	}
	return nil, nil
}

// nodeOf returns a node of a config of single nodes; empty if the table has none.
func nodeOf(mc *mcfgv1.MachineConfig, table *machineconfig.NodeTable) string {
	if table == nil {
		return ""
	}
	for node := range strings.SplitSeq(mc.Annotations[v1alpha1.VariantNodesAnnotation], ",") {
		if _, has := table.Nodes[node]; has {
			return node
		}
	}
	return ""
}

type reader struct {
	trace   history.Trace
	texts   map[string]string
	options lineage.Options
	// the MachineConfigs of the pool, without documents of single nodes
	base *lineage.Lineage
	// nil if the cluster has no table of the pool's nodes
	table *machineconfig.NodeTable
}

func (r reader) documents(node string) ([]lineage.Layer, error) {
	if r.table == nil || node == "" {
		return nil, nil
	}
	return lineage.LayersOfDocuments(*r.table, node)
}

// ofNodes returns the items that nodes have from documents of their own, in one entry for those with the same item from
// the same documents.
func (r reader) ofNodes(nodes []string) ([]Item, error) {
	var out []Item
	type key struct{ kind, name, origin string }
	at := map[key]int{}
	for _, node := range nodes {
		layers, err := r.documents(node)
		if err != nil {
			return nil, err
		}
		own := lineage.New(layers, r.options)
		for _, n := range own.NamesOf() {
			if n.Kind == disruption.KindIgnition {
				continue
			}
			origin := r.origin(slices.Concat(r.base.Setters(n), own.Setters(n)))
			k := key{n.Noun(), n.Shown, origin}
			i, known := at[k]
			if !known {
				i = len(out)
				at[k] = i
				out = append(out, Item{Kind: k.kind, Name: k.name, Origin: origin})
			}
			out[i].Nodes = append(out[i].Nodes, node)
		}
	}
	return out, nil
}

func (r reader) input() history.TraceInput {
	for _, in := range r.trace.Inputs {
		if in.Name == machineconfig.FactName(r.trace.Rendered.Pool) {
			return in
		}
	}
	return history.TraceInput{}
}

// origin describes the documents that set an item, the last one first.
func (r reader) origin(layers []lineage.Layer) string {
	if len(layers) == 0 {
		switch {
		case len(r.trace.Inputs) == 0:
			return "not recorded"
		case len(r.texts) < len(r.trace.Inputs):
			return "not known: a MachineConfig of this config is gone or changed"
		}
		return "the controller's defaults, or a MachineConfig that has changed since"
	}
	var out []string
	for i := len(layers) - 1; i >= 0; i-- {
		out = append(out, r.text(layers[i]))
	}
	return strings.Join(out, ", in place of ")
}

func (r reader) text(l lineage.Layer) string {
	if !l.OfNode {
		return r.texts[l.Name]
	}
	in := r.input()
	files := []string{l.Source}
	if l.Source == "" { // An earlier version of the controller wrote the table.
		files = []string{"a document of " + in.Name}
	}
	table := path.Join("pools", r.trace.Rendered.Pool, kinds.NodeFactsFile)
	if l.Facts && slices.Contains(in.Files, table) {
		files = append(files, table)
	}
	text := l.Name + "   " + strings.Join(files, ", ")
	if in.Changed {
		text += "   (changed since)"
	}
	return text
}

// ContentMatch is an item of one or several rendered configs that matches a search.
type ContentMatch struct {
	Kind, Name string
	In         []Holder
}

// Holder is a rendered config that has an item, with the item's origin there.
type Holder struct {
	Config, Origin string
	Nodes          []string
	key            history.ItemKey
}

// SearchContents returns the first items whose kind and name contain a text, in any case, and how many more there are.
func SearchContents(all []Contents, text string, most int) (found []ContentMatch, more int) {
	type key struct{ kind, name string }
	at := map[key]int{}
	text = strings.ToLower(text)
	for _, c := range all {
		for _, it := range c.Items {
			if !strings.Contains(strings.ToLower(it.Kind+" "+it.Name), text) {
				continue
			}
			k := key{it.Kind, it.Name}
			i, known := at[k]
			if !known {
				i = len(found)
				at[k] = i
				found = append(found, ContentMatch{Kind: it.Kind, Name: it.Name})
			}
			found[i].In = append(found[i].In, Holder{c.Trace.Rendered.Name, it.Origin, it.Nodes, it.key})
		}
	}
	if len(found) > most {
		return found[:most], len(found) - most
	}
	return found, 0
}
