package overlay

import (
	"cmp"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// document is a file's document on its way through the layers. A file that two layers list under two names is two.
type document struct {
	*file
	// names it had, the last one now.
	names []string
	uses  []use
	// keys are digests of the document as it is after as many steps.
	keys []string
	gone bool
}

// use is one step that may change the document. A replacement takes its value from another document as that is now.
type use struct {
	step   *step
	name   string // the document's, after the step
	source *document
	after  int // as many steps of the source
}

func newDocument(f *file) *document {
	return &document{file: f, names: []string{f.name}, keys: []string{f.key}}
}

func (d *document) name() string { return d.names[len(d.names)-1] }

// key tells the document as it is now from every other.
func (d *document) now() string { return d.keys[len(d.keys)-1] }

// add adds a step.
func (d *document) add(u use) {
	more := []string{d.now(), u.step.key, u.name}
	if u.source != nil {
		more = append(more, u.source.keys[u.after])
	}
	d.uses = append(d.uses, u)
	d.keys = append(d.keys, keyOf(more...))
}

// identity is what must be unique in a build.
type identity struct {
	kind Kind
	name string
}

// gathered are the documents of one layer so far.
type gathered struct {
	docs []*document
	ids  map[identity]*document
	// named are those that ever had a name.
	named map[identity][]*document
}

func newGathered() *gathered {
	return &gathered{ids: map[identity]*document{}, named: map[identity][]*document{}}
}

// add adds a document with all its names.
func (g *gathered) add(d *document) {
	g.docs = append(g.docs, d)
	g.ids[identity{d.about.kind, d.name()}] = d
	for i, name := range d.names {
		if !slices.Contains(d.names[:i], name) {
			g.named[identity{d.about.kind, name}] = append(g.named[identity{d.about.kind, name}], d)
		}
	}
}

// walk finds all documents of a directory and the steps that each of them takes.
func (b *builder) walk(dir string) []*document {
	w := &walker{builder: b, spoken: map[setMetadata]bool{}}
	l := b.layer(dir, origin.Pos{File: dir})
	if l == nil {
		return nil
	}
	all := newGathered()
	if l.component {
		b.add(fatal(origin.Pos{File: l.file}, "kustomization", "a component is no directory of its own: list it under components of a kustomization"))
		return nil
	}
	w.gather(l, all)
	w.missed()
	w.unspoken()
	return all.docs
}

// walker goes through layers as kustomize does: resources, then components, which work on what is there, then all else.
type walker struct {
	*builder
	stack     []*layer
	layers    int
	documents int
	stopped   bool
	// everywhere are all documents of all layers, for whoever looks for one in the wrong place.
	everywhere []*document
	misses     []miss
	// metadata are the labels and annotations that layers set; spoken are those that count.
	metadata []setMetadata
	spoken   map[setMetadata]bool
}

func (w *walker) gather(l *layer, all *gathered) {
	if w.layers++; w.layers > maxLayers {
		w.stop(origin.Pos{File: cmp.Or(l.file, l.dir)}, fmt.Sprintf("more than %d directories are taken in, counting each as often as it is listed", maxLayers))
	}
	if len(w.stack) > maxNesting {
		w.stop(origin.Pos{File: cmp.Or(l.file, l.dir)}, fmt.Sprintf("directories take each other in more than %d levels deep", maxNesting))
	}
	if w.stopped {
		return
	}
	w.stack = append(w.stack, l)
	defer func() { w.stack = w.stack[:len(w.stack)-1] }()
	for _, r := range l.resources {
		w.resource(r, all)
	}
	for _, r := range l.components {
		if sub := w.directory(r, true); sub != nil {
			w.gather(sub, all)
		}
	}
	for _, s := range l.steps {
		if !w.stopped {
			s.change.use(w, s, all)
		}
	}
}

// stop ends a walk that would not end by itself.
func (w *walker) stop(at origin.Pos, why string) {
	if !w.stopped {
		w.stopped = true
		w.add(fatal(at, "too-large", "%s", why))
	}
}

// resource takes in what an entry of resources names.
func (w *walker) resource(r reference, all *gathered) {
	if w.stopped {
		return
	}
	if w.files[r.path] == nil && !r.isFile && w.isDir(r) {
		if sub := w.directory(r, false); sub != nil {
			own := newGathered()
			w.gather(sub, own)
			for _, d := range own.docs {
				w.join(d, r, all)
			}
		}
		return
	}
	f := w.file(r)
	if f == nil {
		return
	}
	if f.foreign {
		w.add(f.findings...)
	}
	if f.name == "" || f.about.kind == "" {
		return
	}
	if w.documents++; w.documents > maxDocuments {
		w.stop(r.at, fmt.Sprintf("the build has more than %d documents", maxDocuments))
		return
	}
	d := newDocument(f)
	w.everywhere = append(w.everywhere, d)
	w.join(d, r, all)
}

func (w *walker) isDir(r reference) bool {
	info, err := fs.Stat(w.fs, r.path)
	return err == nil && info.IsDir()
}

// directory reads a layer that another one takes in.
func (w *walker) directory(r reference, component bool) *layer {
	for _, l := range w.stack {
		if l.dir == r.path {
			w.add(fatal(r.at, "cycle", "%q takes in itself: %s; remove one of these entries", r.written, w.trail(r.path)))
			return nil
		}
	}
	if component && !w.isDir(r) {
		why := "it is a file, and a component is a directory; list it under resources"
		if _, err := fs.Stat(w.fs, r.path); err != nil {
			why = plain(err)
		}
		w.add(fatal(r.at, "missing", "%q: %s", r.written, why))
		return nil
	}
	l := w.layer(r.path, r.at)
	switch {
	case l == nil:
	case component && !l.component:
		w.add(fatal(r.at, "kustomization", "%q is no component (kind: Component); list it under resources", r.written))
		return nil
	case !component && l.component:
		w.add(fatal(r.at, "kustomization", "%q is a component; list it under components", r.written))
		return nil
	}
	return l
}

func (w *walker) trail(dir string) string {
	var dirs []string
	for _, l := range w.stack {
		if len(dirs) > 0 || l.dir == dir {
			dirs = append(dirs, l.dir)
		}
	}
	return strings.Join(append(dirs, dir), " → ")
}

// join adds a document to those of a layer.
func (w *walker) join(d *document, r reference, all *gathered) {
	id := identity{d.about.kind, d.name()}
	other, twice := all.ids[id]
	if !twice {
		all.add(d)
		return
	}
	files := []string{other.path, d.path}
	slices.Sort(files)
	if files = slices.Compact(files); len(files) > 1 {
		w.add(fatal(origin.Pos{File: files[1]}, "duplicate-name", "%s are both the document %q; rename one, or list one of them under patches", strings.Join(files, " and "), d.name()))
		return
	}
	w.add(fatal(r.at, "duplicate-name", "the document %q (%s) comes in twice; list it, or the directory that lists it, once", d.name(), d.path))
}

// renew takes out documents that are gone, and names all others anew.
func (g *gathered) renew() {
	docs := g.docs
	*g = *newGathered()
	for _, d := range docs {
		if !d.gone {
			g.add(d)
		}
	}
}

// selector is what a target says of the documents that it means.
type selector struct {
	about about
	// byID: the one document that ever had this name.
	byID bool
	// isSource: a replacement takes its value there.
	isSource            bool
	name                string
	re                  *regexp.Regexp // of the name, first or now; nil is all
	labels, annotations string
	// always: names in between count as well, as they do in replacements.
	always bool
	// byName: it says more than labels and annotations.
	byName bool
	at     origin.Pos
	file   string // the layer's
}

// means tells whether a document may be meant, as far as is known before it is built.
func (s *selector) means(d *document) bool {
	switch {
	case s == nil:
		return true
	case d.about.kind != s.about.kind || d.gone:
		return false
	case s.byID:
		return slices.Contains(d.names, s.name)
	}
	names := d.names
	if !s.always {
		names = []string{d.names[0], d.name()}
	}
	return s.re == nil || slices.ContainsFunc(names, s.re.MatchString)
}

// miss is a target that means no document of its layer.
type miss struct {
	selector *selector
	scope    []identity
	why      string // another reason
}

// meant returns the documents that a selector may mean.
func (w *walker) meant(s *selector, all *gathered) []*document {
	var out []*document
	docs := all.docs
	if s.name != "" && regexp.QuoteMeta(s.name) == s.name {
		docs = all.named[identity{s.about.kind, s.name}]
	}
	for _, d := range docs {
		if s.means(d) {
			out = append(out, d)
		}
	}
	m := miss{selector: s}
	switch {
	case s.byID && len(out) > 1:
		m.why = fmt.Sprintf("more than one document here is, or was, named %q; name the one as it is named now, or build it apart", s.name)
		out = nil
	case len(out) > 0:
		return out
	default:
		for _, d := range all.docs {
			m.scope = append(m.scope, identity{d.about.kind, d.name()})
		}
	}
	w.misses = append(w.misses, m)
	return nil
}

// missed says of each target that means nothing why that may be, now that all layers are known.
func (w *walker) missed() {
	for _, m := range w.misses {
		w.add(fatal(m.selector.at, "patch-target", "%s", w.whyMissed(m)))
	}
}

func (w *walker) whyMissed(m miss) string {
	if m.why != "" {
		return m.why
	}
	s := m.selector
	var names, others []string
	for _, id := range m.scope {
		names = append(names, id.name)
		if id.kind != s.about.kind && (s.re == nil || s.re.MatchString(id.name)) && (!s.byID || s.name == id.name) {
			others = append(others, id.name+" is a "+string(id.kind))
		}
	}
	slices.Sort(names)
	slices.Sort(others)
	var elsewhere []string
	for _, d := range w.everywhere {
		if s.means(d) {
			elsewhere = append(elsewhere, d.path)
		}
	}
	slices.Sort(elsewhere)
	switch {
	case len(others) > 0:
		return fmt.Sprintf("no document of kind %s is meant here, but %s: write `kind: %s`", s.about.kind, some(others), kindIn(others[0]))
	case len(elsewhere) > 0:
		return fmt.Sprintf("no document is named %q in what %s takes in; %s is built beside it, which a patch here does not see: move the patch to the kustomization that takes in both", s.name, s.file, some(slices.Compact(elsewhere)))
	case s.name == "":
		return fmt.Sprintf("no document of kind %s is here", s.about.kind)
	case s.isSource:
		return fmt.Sprintf("no document is named %q here, so the replacement has no source; there are %s", s.name, some(slices.Compact(names)))
	case s.byID:
		return fmt.Sprintf("no document is named %q here; name the patch file as the document's, or give the patch a target such as {name: 10-chrony}", s.name)
	default:
		return fmt.Sprintf("no document is named %q here; there are %s", s.name, some(slices.Compact(names)))
	}
}

// kindIn is the kind at the end of `40-gpu is a Butane`.
func kindIn(other string) string { return other[strings.LastIndexByte(other, ' ')+1:] }

// some lists words, but not more than anybody reads.
func some(words []string) string {
	const enough = 20
	if len(words) > enough {
		words = append(words[:enough:enough], fmt.Sprintf("%d more", len(words)-enough))
	}
	return strings.Join(words, ", ")
}
