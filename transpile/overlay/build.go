package overlay

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"

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
// In a directory without a kustomization file, all documents are resources, in lexical order of their files.
func Build(fsys fs.FS, dir string) (Result, []origin.Finding) { return buildWithin(fsys, dir, maxWork) }

// buildWithin is Build with another limit for the work.
func buildWithin(fsys fs.FS, dir string, limit int) (Result, []origin.Finding) {
	b := newBuilder(fsys, limit)
	var out Result
	docs, changes := gather(b, path.Clean(dir))
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
