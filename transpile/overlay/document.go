package overlay

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// document is the document of one file in a build. If two layers list a file under two names, the build has two
// documents of this file.
type document struct {
	file *documents.File
	// names are all names of the document so far; the last one is current.
	names []string
	// dropped is true if a patch deletes the document. Selectors of later steps do not match a deleted document.
	dropped bool
	// root is the parsed object. root is nil before the first change, and after a patch has deleted the document.
	root     *yaml.Node
	changed  bool
	files    documents.YAMLFiles // the files to which the positions in root refer
	findings []origin.Finding
	effects  []effect
	// added are the labels and annotations that layers set for selectors. finish removes these labels and annotations.
	added [][2]string
}

func (d *document) name() string { return d.names[len(d.names)-1] }

// isDeleted reports whether a patch has deleted the document.
func (d *document) isDeleted() bool { return d.changed && d.root == nil }

// fatal adds a fatal finding and returns false.
func (d *document) fatal(at origin.Pos, rule, format string, args ...any) bool {
	d.findings = append(d.findings, origin.Errorf(at, rule, format, args...))
	return false
}

// load parses the document. The build calls load before the first change.
func (d *document) load() {
	if d.changed {
		return
	}
	d.changed, d.root, d.files = true, d.file.Object(), documents.YAMLFiles{d.file.Path}
	if _, meta := documents.Field(d.root, "metadata"); meta == nil {
		documents.Set(d.root, "metadata", documents.Mapping())
	}
}

// content returns the part of the object whose lists and fields kustomize merges: the content of the config.
func (d *document) content() *yaml.Node { return d.file.Info.Content(d.root) }

// entryPosition returns where an entry was written. For an item of a list of mappings, entryPosition returns the
// position of the item's key.
func (d *document) entryPosition(item *yaml.Node, e documents.Entry) origin.Pos {
	for _, l := range d.file.Info.Lists {
		if _, key := documents.Field(item, l.Key); l.Path == e.List && key != nil {
			return d.files.Pos(key)
		}
	}
	return d.files.Pos(item)
}

// finish returns the document after its last change. If the document is invalid, finish adds findings.
func (d *document) finish(b *builder) documents.Document {
	if !d.changed {
		return d.file.Unchanged
	}
	if d.root == nil || origin.Fatal(d.findings) {
		return documents.Document{}
	}
	content := d.content()
	if content == nil || content.Kind != yaml.MappingNode {
		d.fatal(origin.Pos{File: d.file.Path}, "document", "the document %q is empty once it is patched; remove it "+
			"from the resources", d.name())
		return documents.Document{}
	}
	d.removeAdded()
	left := documents.Entries(content, d.file.Info.Lists)
	maps.Copy(left, documents.WholeEntries(content, d.file.Info.Lists))
	// A later layer has added the entry again, so it is not lost.
	d.effects = slices.DeleteFunc(d.effects, func(e effect) bool {
		_, again := left[e.entry]
		return e.what == removed && again
	})
	src, err := documents.Encode(d.outer())
	if err != nil {
		d.fatal(origin.Pos{File: d.file.Path}, "kustomize", "%v", err)
	}
	return b.Document(d.file, d.name(), src, documents.Positions{Files: d.files, AtKeys: true}.Of(d.outer()))
}

// outer returns the document in the form that its file has: without the object that wraps it for kustomize.
func (d *document) outer() *yaml.Node {
	if d.file.Info.Wrapped {
		return d.content()
	}
	return d.root
}

// removeAdded removes the labels and annotations that the layers set for selectors.
func (d *document) removeAdded() {
	_, meta := documents.Field(d.root, "metadata")
	for _, a := range d.added {
		_, m := documents.Field(meta, a[0])
		documents.Remove(m, a[1])
		if m != nil && len(m.Content) == 0 {
			documents.Remove(meta, a[0])
		}
	}
	if !d.file.Info.Wrapped && !d.file.Named {
		documents.Remove(d.root, "metadata")
	}
}

// documentSet contains the documents of one layer so far.
type documentSet struct {
	docs []*document
	ids  map[identity]*document
	// named maps every name, old or current, to the documents that have or had it.
	named map[identity][]*document
}

// identity identifies a document. Each identity must be unique in a build.
type identity struct {
	kind documents.Kind
	name string
}

func newDocumentSet(docs ...*document) *documentSet {
	set := &documentSet{ids: map[identity]*document{}, named: map[identity][]*document{}}
	for _, d := range docs {
		set.add(d)
	}
	return set
}

// add adds a document with all its names.
func (set *documentSet) add(d *document) {
	set.docs = append(set.docs, d)
	set.ids[identity{d.file.Info.Kind, d.name()}] = d
	for i, name := range d.names {
		if !slices.Contains(d.names[:i], name) {
			set.named[identity{d.file.Info.Kind, name}] = append(set.named[identity{d.file.Info.Kind, name}], d)
		}
	}
}

// reindex removes deleted documents and indexes the others by their new names.
func (set *documentSet) reindex() {
	*set = *newDocumentSet(slices.DeleteFunc(set.docs, func(d *document) bool { return d.dropped })...)
}
