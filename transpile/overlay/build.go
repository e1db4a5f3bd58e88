package overlay

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/kyaml/openapi"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// Result is the result of building one directory.
type Result struct {
	// Documents are the documents in the order of the build.
	Documents []documents.Document
	// Reads lists the files that the build read, with the digests of their contents.
	Reads []origin.File
	// AsWritten are the documents before any patch. AsWritten is set only if the build fails, and does not contain
	// documents that have their own fatal finding. Use AsWritten to find further errors, not to configure a node.
	AsWritten []documents.Document
}

// The limits on one build. The limits are much larger than real repositories need, and small enough to keep a build
// fast.
const (
	maxFindings  = 1000
	maxDocuments = 20_000
	// maxLayers is the maximum number of directories. A directory counts once for each time that a kustomization lists
	// it.
	maxLayers  = 2000
	maxNesting = 50
	// the bytes of documents and patches; each counts once for each time that a patch changes a document
	maxWork  = 512 << 20
	maxGrown = 8 << 20 // the size of one document, in bytes

	// freeWork is the work that every repository may cause, even a small one: 16 MiB, which need less than two seconds
	// of CPU time.
	freeWork    = 16 << 20
	workPerByte = 200 // the additional work that is allowed for each byte that the build reads
)

// builder is the state of one build.
type builder struct {
	*Reader
	work    int // work is the number of bytes that the build has processed so far. The method spend adds to work.
	maxWork int
}

// Build builds the directory dir of fsys. If a finding is fatal, Documents is nil. Warnings do not prevent documents.
// In a directory without a kustomization file, all documents are resources, in lexical order of their files. A cache
// saves the work for files that have not changed since an earlier build; it may be nil.
func Build(fsys fs.FS, dir string, cache documents.Cache) (Result, []origin.Finding) {
	return buildWithin(fsys, dir, cache, maxWork)
}

// buildWithin is Build with another limit for the work.
func buildWithin(fsys fs.FS, dir string, cache documents.Cache, limit int) (Result, []origin.Finding) {
	b := newBuilder(fsys, limit)
	b.Cache = cache
	var out Result
	docs, changes := b.gather(path.Clean(dir))
	if !origin.Fatal(b.Findings) {
		out.Documents = b.apply(docs, changes)
	}
	if origin.Fatal(b.Findings) {
		return Result{AsWritten: b.asWritten()}, sorted(b.Findings)
	}
	b.WarnUnlisted()
	for _, f := range slices.Sorted(maps.Keys(b.Reads)) {
		out.Reads = append(out.Reads, origin.File{Path: f, Blob: b.Reads[f]})
	}
	return out, sorted(b.Findings)
}

func newBuilder(fsys fs.FS, limit int) *builder {
	return &builder{Reader: NewReader(fsys), maxWork: limit}
}

// spend adds bytes to the work that the build has done so far, and reports whether more work is allowed.
func (b *builder) spend(bytes int) bool {
	b.work += bytes
	return b.work <= min(b.maxWork, freeWork+workPerByte*b.Bytes)
}

// gather finds all documents of a directory and the changes to them, in order. Documents that a patch deletes come
// last.
func (b *builder) gather(dir string) ([]*document, []change) {
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

// apply applies all changes and returns the documents that no patch deleted.
func (b *builder) apply(docs []*document, changes []change) []documents.Document {
	if err := b.applyAll(changes); err != nil {
		b.Add(origin.Errorf(origin.Pos{}, "kustomize", "%v", err))
		return nil
	}
	var out []documents.Document
	for _, d := range docs { // Deleted documents are checked too: a document must be valid even if a patch deletes it.
		made := d.finish(b)
		b.Add(d.findings...)
		if !d.isDeleted() && !origin.Fatal(d.findings) {
			out = append(out, made)
		}
	}
	if !origin.Fatal(b.Findings) {
		b.Add(reportEffects(docs, changes, b.Layers)...)
	}
	return out
}

// applyAll applies all changes in order, while kustomize uses Bunsen's schema.
func (b *builder) applyAll(changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	kustomizeLock.Lock()
	defer kustomizeLock.Unlock()
	if err := resetSchema(); err != nil {
		return err
	}
	for _, c := range changes {
		c.apply(b)
	}
	return nil
}

// kustomizeLock guards kustomize's schema, which is in package variables. A build holds the lock while it applies its
// changes.
var kustomizeLock sync.Mutex

// resetSchema makes kustomize use Bunsen's schema, because other code in the process may have set another schema. No
// repository can change the schema. The caller holds kustomizeLock.
func resetSchema() error {
	keys, err := documents.Schema()
	if err != nil {
		return err
	}
	openapi.ResetOpenAPI()
	openapi.SuppressBuiltInSchemaUse()
	if err := openapi.AddSchema(keys); err != nil {
		return fmt.Errorf("adding the schema of merge keys: %w", err)
	}
	return nil
}

// asWritten returns the documents that are valid without their patches.
func (b *builder) asWritten() []documents.Document {
	bad := map[string]bool{}
	for _, f := range b.Findings {
		bad[f.At.File] = bad[f.At.File] || !f.Warning
	}
	files := slices.Clone(b.Declared)
	slices.SortStableFunc(files, func(x, y *documents.File) int { return cmp.Compare(x.Name, y.Name) })
	var out []documents.Document
	for _, f := range files {
		if !bad[f.Path] && !f.Broken {
			out = append(out, f.Unchanged)
		}
	}
	return out
}

// sorted returns findings in the order of their positions, and at most maxFindings of them.
func sorted(findings []origin.Finding) []origin.Finding {
	out := slices.Clone(findings)
	slices.SortStableFunc(out, func(x, y origin.Finding) int { return x.At.Compare(y.At) })
	out = slices.Compact(out)
	if len(out) > maxFindings {
		more := len(out) - maxFindings
		slices.SortStableFunc(out, func(x, y origin.Finding) int { return cmp.Compare(severity(x), severity(y)) })
		out = append(out[:maxFindings:maxFindings], origin.Warningf(origin.Pos{}, "more",
			"%d more findings are left out", more))
	}
	return out
}

// severity returns the rank of a finding, so that errors sort before warnings.
func severity(f origin.Finding) int {
	if f.Warning {
		return 1
	}
	return 0
}

// plan adds a change for each document that a step may change.
func (g *gatherer) plan(s *Step, all *documentSet) {
	switch t := s.Transform.(type) {
	case *Patch:
		g.planPatch(t, s, all)
	case Replacement:
		g.planReplacement(t, s, all)
	case SetMetadata:
		g.planMetadata(t, s, all)
	case Rename:
		g.planRename(t, s, all)
	}
}

// planReplacement adds a change for each document to which a replacement copies its value.
func (g *gatherer) planReplacement(r Replacement, s *Step, all *documentSet) {
	c := change{step: s}
	if r.Source != nil {
		sources := g.find(r.Source, all)
		if len(sources) == 0 {
			return
		}
		if len(sources) > 1 {
			g.unmatched = append(g.unmatched,
				unmatched{selector: r.Source, why: "more than one document is the source here; name the one"})
			return
		}
		c.source, c.sourceName = sources[0], sources[0].name()
	}
	for _, d := range g.find(r.Target, all) {
		if !rejects(r, d) {
			c.document, c.name = d, d.name()
			g.changes = append(g.changes, c)
		}
	}
}

// rejects reports whether the replacement excludes a document by its name or kind.
func rejects(r Replacement, d *document) bool {
	for _, s := range r.Reject {
		if s.HasIdentity && s.matches(d) {
			return true
		}
	}
	return false
}

// planRename adds a change for each document, and records the new name for the selectors of later steps.
func (g *gatherer) planRename(c Rename, s *Step, all *documentSet) {
	g.warnOfOrder(c, s, all)
	for _, d := range all.docs {
		name := c.Prefix + d.name() + c.Suffix
		d.names = append(d.names, name)
		g.changes = append(g.changes, change{step: s, document: d, name: name})
	}
	all.reindex()
}

// warnOfOrder warns of a prefix that comes before the number of a name, because the prefix changes the order in which
// documents merge.
func (g *gatherer) warnOfOrder(c Rename, s *Step, all *documentSet) {
	if c.Prefix == "" || number.MatchString(c.Prefix) {
		return
	}
	for _, d := range all.docs {
		switch {
		case !number.MatchString(d.name()), d.file.Info.Kind.HasGeneratedName():
		default:
			g.Add(origin.Warningf(s.At, "merge-order", "the prefix changes the order of merging: %s becomes %s, "+
				"which no longer begins with a number. Use nameSuffix, or a prefix that begins with a number", d.name(),
				c.Prefix+d.name()))
			return
		}
	}
}

// planPatch adds a change for each document that a patch selects.
func (g *gatherer) planPatch(p *Patch, s *Step, all *documentSet) {
	for _, d := range g.find(s.Selector, all) {
		g.changes = append(g.changes, change{step: s, document: d, name: d.name()})
		if p.Deletes && !s.Selector.HasMetadata() {
			d.dropped = true
			g.dropped = append(g.dropped, d)
		}
	}
	if p.Deletes {
		all.reindex()
	}
}

// planMetadata adds a change for each document whose labels or annotations a step sets.
func (g *gatherer) planMetadata(c SetMetadata, s *Step, all *documentSet) {
	for _, d := range all.docs {
		g.changes = append(g.changes, change{step: s, document: d, name: d.name()})
		if stays(c, d) {
			g.effective[c] = true
		}
	}
	g.metadata = append(g.metadata, c)
}

// Rename adds a prefix or a suffix to the names of all documents.
type Rename struct{ Prefix, Suffix string }

// SetMetadata sets one label or annotation of all documents, so that selectors of later steps can use it. Of these,
// objects on the cluster get only the role label. Documents keep the annotation that names container runtimes, because
// it decides to which files they are translated.
type SetMetadata struct {
	Field, Key, Value string
	At                origin.Pos
}

// IsRole reports whether the label is the role label, by which pools select MachineConfigs.
func (c SetMetadata) IsRole() bool { return c.Field == "labels" && c.Key == v1alpha1.RoleLabel }

// IsRuntime reports whether the annotation names the container runtimes of documents.
func (c SetMetadata) IsRuntime() bool {
	return c.Field == "annotations" && c.Key == v1alpha1.ContainerRuntimeAnnotation
}

// number matches the number at the beginning of a name, which decides the order of merging.
var number = regexp.MustCompile(`^[0-9]+-`)

// stays reports whether a finished document keeps a label or annotation that a layer set.
func stays(c SetMetadata, d *document) bool {
	return c.IsRole() && !d.file.Info.Wrapped || c.IsRuntime() && d.file.Info.Kind.ReadsRuntime()
}

// warnUnusedMetadata warns of labels and annotations without an effect: no selector uses them, and objects on the
// cluster do not get them.
func (g *gatherer) warnUnusedMetadata() {
	for _, c := range g.metadata {
		if g.effective[c] || g.isSelectedBy(c) {
			continue
		}
		why := "of a fragment's metadata only its name and role count"
		if c.IsRuntime() {
			why = "no document here configures a container runtime"
		}
		if c.IsRole() {
			why = "the role of a Butane document is its directory's pool"
		}
		g.Add(origin.Warningf(c.At, "ignored-field", "%s does not reach the cluster, and no target here selects "+
			"by it: %s", c.Key, why))
	}
}

// isSelectedBy reports whether any selector of the build uses a label or annotation.
func (g *gatherer) isSelectedBy(c SetMetadata) bool {
	for _, l := range g.Layers {
		if l == nil {
			continue
		}
		for _, s := range l.Steps {
			for _, sel := range s.selectors() {
				words := sel.Labels
				if c.Field == "annotations" {
					words = sel.Annotations
				}
				if mentionsKey(words, c.Key) {
					return true
				}
			}
		}
	}
	return false
}

// selectors returns all selectors of a step that compare labels.
func (s *Step) selectors() []*Selector {
	var out []*Selector
	if s.Selector != nil {
		out = append(out, s.Selector)
	}
	if c, ok := s.Transform.(Replacement); ok {
		out = append(out, c.Reject...)
	}
	return out
}

// mentionsKey reports whether a selector such as `tier=edge,!old` has a key.
func mentionsKey(selector, key string) bool {
	ok, err := regexp.MatchString(`(^|[^-._/\w])`+regexp.QuoteMeta(key)+`($|[^-._/\w])`, selector)
	return err == nil && ok
}
