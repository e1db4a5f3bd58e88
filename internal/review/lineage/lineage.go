package lineage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
	transpilekinds "github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// KindExtensionsImage is the image that extensions come from. No Change has this kind, because it does not affect a
// running node.
const KindExtensionsImage disruption.ChangeKind = "extensions-image"

// Layer is one MachineConfig in the order of merging.
type Layer struct {
	// Name is the name of the MachineConfig.
	Name string
	// Config is the parsed spec of the MachineConfig.
	Config machineconfig.Config
	// Origin maps the parts of Config to the repository. Origin is empty for a MachineConfig that a user created
	// through the API.
	Origin origin.Map
	// Source is the repository's file that declares the MachineConfig; overlays may have changed it. If Origin is
	// empty, Source is empty.
	Source string
	// OfNode is true for a document of single nodes, which a table of nodes has. Facts is true if it uses facts of the
	// node's row.
	OfNode, Facts bool
	// Generated is true if a controller of the cluster wrote the MachineConfig. The cluster's images then override the
	// images of the MachineConfig.
	Generated bool
}

// Options are the options of a Lineage. The zero value hides all contents.
type Options struct {
	// Pool is the pool's name for errors.
	Pool string
	// Mask returns what people may see of a content at a path. The path of a unit is its name, and that of a drop-in is
	// as app.service.d/10-a.conf. A nil Mask hides all contents. Hashes of passwords and keys of encrypted disks are
	// always hidden.
	Mask func(path, content string) secretmask.Masked
}

// Place is a position in the repository. In JSON a Place is the text `file:line:col`.
type Place struct{ origin.Pos }

// MarshalText writes the place as Pos.String does.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Commit describes the commit that last changed a line.
type Commit struct {
	// Hash is the full hash of the commit. Hash is empty if the line is not committed yet.
	Hash string `json:"hash"`
	// Author is `Name <mail>`.
	Author string `json:"author,omitempty"`
	// Date is the date of the commit.
	Date time.Time `json:"date,omitzero"`
	// Subject is the first line of the commit's message.
	Subject string `json:"subject,omitempty"`
}

// Writer is one layer that set a value.
type Writer struct {
	// Layer is the MachineConfig's name.
	Layer string `json:"machineConfig"`
	// Source is the file that declares the MachineConfig; it is empty for a MachineConfig that a user created through
	// the API.
	Source string `json:"declaredIn,omitempty"`
	// At is the line with the value. The line is in Source, in the last overlay that changed the value, or in a
	// `local:` file.
	At Place `json:"at,omitzero"`
	// Value is the written value, decoded, or a digest of a long or hidden value.
	Value string `json:"value,omitempty"`
	// Commit is the commit that last changed the line. Annotate adds it.
	Commit *Commit `json:"commit,omitempty"`

	// layer is the index of the layer in the order of merging.
	layer int
	// content is the text or file that Value describes. content may be secret.
	content []byte
}

// Attribute is one value of an item with its origin.
type Attribute struct {
	// Name is the path of the value in Ignition, below the item: `mode`, `contents`, `user`, `append.0`, `enabled`,
	// `dropins.10-limits.conf`, `sshAuthorizedKeys.1`, `partitions.2.sizeMiB`. Numbers count in the rendered config.
	Name string `json:"name"`
	// Writer wrote the final value.
	Writer
	// Content is the whole text if Value is only its digest. Content is empty if the content is hidden or not a text.
	Content string `json:"content,omitempty"`
	// ContentCommits are the hashes of the commits of each line of Content; a line that is not committed yet has an
	// empty hash. Annotate adds the hashes.
	ContentCommits []string `json:"contentCommits,omitempty"`
	// Replaced are the earlier writers of the value, the oldest first.
	Replaced []Writer `json:"replaced,omitempty"`
}

// Item is one item of a rendered config.
type Item struct {
	// Kind is the kind of the item. If layers set different kinds at a path, Kind is the final kind.
	Kind disruption.ChangeKind `json:"kind"`
	// Name is the path, the name of the unit or user, or the kernel argument. Name is empty for kinds with only one
	// item.
	Name string `json:"name,omitempty"`
	// Attributes are the values of the item: first contents, state, mode and owner, then the others in the order of
	// Ignition's fields.
	Attributes []Attribute `json:"attributes"`
	// Writers are all layers that set a part of the item, in the order of merging: the last one is render's Winner. At
	// of these Writers is the beginning of the item.
	Writers []Writer `json:"writers"`
	// Displaced are the writers of an entry of another kind at the same path, which this item replaced. Value of these
	// Writers is that other kind.
	Displaced []Writer `json:"displaced,omitempty"`
	// Defaults are the node's values that no document wrote.
	Defaults []Default `json:"defaults,omitempty"`
}

// Default is a value that no layer sets.
type Default struct {
	// Name has the form of an Attribute's Name.
	Name string `json:"name"`
	// Value has the form of an Attribute's Value.
	Value string `json:"value"`
}

// Winner is the name of the MachineConfig that wrote the item last.
func (i Item) Winner() string {
	if len(i.Writers) == 0 {
		return ""
	}
	return i.Writers[len(i.Writers)-1].Layer
}

// Attribute returns the item's attribute with a name.
func (i Item) Attribute(name string) (Attribute, bool) {
	for _, a := range i.Attributes {
		if a.Name == name {
			return a, true
		}
	}
	return Attribute{}, false
}

// EachWriter calls f for every writer in the item, so that a caller can add commits.
func (i *Item) EachWriter(f func(*Writer)) {
	each := func(list []Writer) {
		for j := range list {
			f(&list[j])
		}
	}
	for j := range i.Attributes {
		f(&i.Attributes[j].Writer)
		each(i.Attributes[j].Replaced)
	}
	each(i.Writers)
	each(i.Displaced)
}

// generatedBy marks a MachineConfig that a controller of the cluster wrote.
const generatedBy = "machineconfiguration.openshift.io/generated-by-controller-version"

// LayersOf returns MachineConfigs in the order of merging, with the origins of fragments. MachineConfigs without an
// origin were created through the API. LayersOf returns an error that names an invalid MachineConfig.
func LayersOf(mcs []*mcfgv1.MachineConfig, fragments []transpile.Fragment) ([]Layer, error) {
	known := byName(fragments)
	var out []Layer
	for _, mc := range render.Order(mcs) {
		if machineconfig.PoolOf(mc) != "" {
			continue // It is about single nodes, and no node gets its file.
		}
		spec, err := transpilekinds.UpgradeSpec(mc.Spec)
		if err != nil {
			return nil, fmt.Errorf("reading MachineConfig %s: %w", mc.Name, err)
		}
		config, err := machineconfig.Parse(spec)
		if err != nil {
			return nil, fmt.Errorf("reading MachineConfig %s: %w", mc.Name, err)
		}
		layer := Layer{Name: mc.Name, Config: config}
		_, layer.Generated = mc.Annotations[generatedBy]
		out = append(out, known.place(layer))
	}
	return out, nil
}

// LayersOfRendered returns the layers of a rendered config without parsing the MachineConfigs again.
func LayersOfRendered(r render.Rendered, fragments []transpile.Fragment) []Layer {
	known := byName(fragments)
	var out []Layer
	for _, l := range r.Layers() {
		out = append(out, known.place(Layer{Name: l.Name, Config: l.Config, Generated: l.Generated}))
	}
	return out
}

// fragmentsByName maps the names of fragments to the fragments.
type fragmentsByName map[string]transpile.Fragment

func byName(fragments []transpile.Fragment) fragmentsByName {
	known := make(fragmentsByName, len(fragments))
	for _, f := range fragments {
		known[f.Name] = f
	}
	return known
}

// place adds the origin of a layer.
func (known fragmentsByName) place(l Layer) Layer {
	if f, ok := known[l.Name]; ok {
		l.Origin, l.Source = f.Origin, f.File
	}
	return l
}

// LayersOfPool returns the layers of a pool in a repository: the fragments that its selector selects, without
// MachineConfigs of the cluster and of other sources.
func LayersOfPool(result transpile.Result, pool string) ([]Layer, error) {
	fragments, err := transpile.Select(result, pool)
	if err != nil {
		return nil, err
	}
	known := slices.Contains(result.Pools, pool) || slices.ContainsFunc(result.Cluster,
		func(o transpile.ClusterObject) bool {
			return o.Object.GetKind() == "MachineConfigPool" && o.Object.GetName() == pool
		})
	if !known {
		return nil, fmt.Errorf("there is no pool %s in this repository: it has %s", pool,
			strings.Join(result.Pools, ", "))
	}
	mcs := make([]*mcfgv1.MachineConfig, len(fragments))
	for i, f := range fragments {
		mcs[i] = f.MachineConfig
	}
	return LayersOf(mcs, fragments)
}

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
