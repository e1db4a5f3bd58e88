package overlay

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/kyaml/openapi"

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

func newBuilder(fsys fs.FS, limit int) *builder {
	return &builder{Reader: NewReader(fsys), maxWork: limit}
}

// spend adds bytes to the work that the build has done so far, and reports whether more work is allowed.
func (b *builder) spend(bytes int) bool {
	b.work += bytes
	return b.work <= min(b.maxWork, freeWork+workPerByte*b.Bytes)
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

// kustomizeLock guards kustomize's schema, which is in package variables. A build holds the lock while it applies its
// changes.
var kustomizeLock sync.Mutex

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
