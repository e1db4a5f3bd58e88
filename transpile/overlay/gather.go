package overlay

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// identity identifies a document. Each identity must be unique in a build.
type identity struct {
	kind documents.Kind
	name string
}

// documentSet contains the documents of one layer so far.
type documentSet struct {
	docs []*document
	ids  map[identity]*document
	// named maps every name, old or current, to the documents that have or had it.
	named map[identity][]*document
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

// gather finds all documents of a directory and the changes to them, in order. Documents that a patch deletes come
// last.
func gather(b *builder, dir string) ([]*document, []change) {
	g := &gatherer{builder: b, effective: map[SetMetadata]bool{}}
	l := b.Layer(dir, origin.Pos{File: dir})
	if l == nil {
		return nil, nil
	}
	if l.Component {
		b.Add(origin.Errorf(origin.Pos{File: l.File}, "kustomization", "a component is no directory of its own: list "+
			"it under components of a kustomization"))
		return nil, nil
	}
	all := newDocumentSet()
	g.layerInto(l, all)
	g.reportUnmatched()
	g.warnUnusedMetadata()
	return slices.Concat(all.docs, g.dropped), g.changes
}

// gatherer reads layers in kustomize's order: first the resources; then the components, which change the documents
// found so far; then the steps of the layer.
type gatherer struct {
	*builder
	stack     []*Layer
	count     int // count is the number of layers. A layer counts once for each time that a kustomization lists it.
	stopped   bool
	documents []*document // the documents of all layers
	dropped   []*document // the documents that a patch deletes
	changes   []change
	unmatched []unmatched
	// metadata are the labels and annotations that layers set. effective has those labels and annotations that the
	// objects on the cluster get.
	metadata  []SetMetadata
	effective map[SetMetadata]bool
}

// layerInto adds the documents of a layer to a set and plans the layer's steps.
func (g *gatherer) layerInto(l *Layer, all *documentSet) {
	at := origin.Pos{File: cmp.Or(l.File, l.Dir)}
	if g.count++; g.count > maxLayers {
		g.stop(at, fmt.Sprintf("more than %d directories are listed, counting each as often as it is listed",
			maxLayers))
	}
	if len(g.stack) > maxNesting {
		g.stop(at, fmt.Sprintf("directories list each other more than %d levels deep", maxNesting))
	}
	if g.stopped {
		return
	}
	g.stack = append(g.stack, l)
	defer func() { g.stack = g.stack[:len(g.stack)-1] }()
	for _, r := range l.Resources {
		g.resource(r, all)
	}
	for _, r := range l.Components {
		if sub := g.directory(r, true); sub != nil {
			g.layerInto(sub, all)
		}
	}
	for _, s := range l.Steps {
		if !g.stopped {
			g.plan(s, all)
		}
	}
}

// plan adds a change for each document that a step may change.
func (g *gatherer) plan(s *Step, all *documentSet) {
	switch t := s.Transform.(type) {
	case *Patch:
		planPatch(g, t, s, all)
	case Replacement:
		planReplacement(g, t, s, all)
	case SetMetadata:
		planMetadata(g, t, s, all)
	case Rename:
		planRename(g, t, s, all)
	}
}

// stop ends the build of a directory that includes too many files or directories.
func (g *gatherer) stop(at origin.Pos, why string) {
	if !g.stopped {
		g.stopped = true
		g.Add(origin.Errorf(at, "too-large", "%s", why))
	}
}

// resource adds the documents of one entry of resources.
func (g *gatherer) resource(r documents.Reference, all *documentSet) {
	if g.stopped {
		return
	}
	if g.IsDirectory(r) {
		if sub := g.directory(r, false); sub != nil {
			own := newDocumentSet()
			g.layerInto(sub, own)
			for _, d := range own.docs {
				g.addDocument(d, r, all)
			}
		}
		return
	}
	f := g.File(r)
	if f == nil {
		return
	}
	if f.Foreign {
		g.Add(f.Findings...)
	}
	if f.Name == "" || f.Info.Kind == "" {
		return
	}
	if len(g.documents) == maxDocuments {
		g.stop(r.At, fmt.Sprintf("the build has more than %d documents", maxDocuments))
		return
	}
	d := &document{file: f, names: []string{f.Name}}
	g.documents = append(g.documents, d)
	g.addDocument(d, r, all)
}

// directory reads a layer that another layer includes.
func (g *gatherer) directory(r documents.Reference, component bool) *Layer {
	for _, l := range g.stack {
		if l.Dir == r.Path {
			g.Add(origin.Errorf(r.At, "cycle", "%q includes itself: %s; remove one of these entries", r.Written,
				g.cycleTo(r.Path)))
			return nil
		}
	}
	if component && !g.IsDirectory(r) {
		why := "it is a file, and a component is a directory; list it under resources"
		if _, err := fs.Stat(g.FS, r.Path); err != nil {
			why = documents.ReadProblem(err)
		}
		g.Add(origin.Errorf(r.At, "missing", "%q: %s", r.Written, why))
		return nil
	}
	l := g.Layer(r.Path, r.At)
	switch {
	case l == nil:
	case component && !l.Component:
		g.Add(origin.Errorf(r.At, "kustomization", "%q is no component (kind: Component); list it under resources",
			r.Written))
		return nil
	case !component && l.Component:
		g.Add(origin.Errorf(r.At, "kustomization", "%q is a component; list it under components", r.Written))
		return nil
	}
	return l
}

// cycleTo lists the directories from dir back to dir.
func (g *gatherer) cycleTo(dir string) string {
	var dirs []string
	for _, l := range g.stack {
		if len(dirs) > 0 || l.Dir == dir {
			dirs = append(dirs, l.Dir)
		}
	}
	return strings.Join(append(dirs, dir), " → ")
}

// addDocument adds a document to the set of a layer.
func (g *gatherer) addDocument(d *document, r documents.Reference, all *documentSet) {
	id := identity{d.file.Info.Kind, d.name()}
	other, twice := all.ids[id]
	if !twice {
		all.add(d)
		return
	}
	files := []string{other.file.Path, d.file.Path}
	slices.Sort(files)
	if files = slices.Compact(files); len(files) > 1 {
		g.Add(origin.Errorf(origin.Pos{File: files[1]}, "duplicate-name", "%s are both the document %q; rename one, "+
			"or list one of them under patches", strings.Join(files, " and "), d.name()))
		return
	}
	g.Add(origin.Errorf(r.At, "duplicate-name", "the document %q (%s) is listed twice; list it, or the directory "+
		"that lists it, once", d.name(), d.file.Path))
}
