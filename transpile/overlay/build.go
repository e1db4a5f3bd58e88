package overlay

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Document is one resource as all layers of the overlay left it.
type Document struct {
	// Name is the file's without its extension, with the overlay's prefixes and suffixes; of an object that has a
	// metadata.name, that one.
	Name string
	// Kind of the document.
	Kind Kind
	// File in the repository that declares the document; patches only change it.
	File string
	// Source is the document as YAML, or an Ignition config that no patch touched as its file has it. Local files of a
	// Butane document are named relative to the file system's root.
	Source []byte
	// Origin maps paths in the document (`$.storage.files.0.mode`) to the line that wrote them last. Its Files are the
	// declaring file and every file that wrote a line of it.
	Origin origin.Map
	// Key is a digest, in hex, of everything above: equal keys, equal documents.
	Key string
}

// Result is one directory's build.
type Result struct {
	// Documents in the order of the build.
	Documents []Document
	// Reads is everything the build depends on: files with the digest of their contents, directories with that
	// of their listing (see Digest). Equal reads give an equal build.
	Reads []origin.File
	// AsWritten are the documents before any patch, where a finding keeps the build from being made; documents with a
	// fatal finding of their own are left out. They are good for finding what else is wrong, and for nothing more.
	AsWritten []Document
	// Parsed are the trees of Butane documents that no patch touched and that this build had to parse, by the documents'
	// keys: parsing is most of the cost. A tree says what its document's Source says, with other lines. Do not change it.
	Parsed map[string]*yaml.Node
	// Keys are the builder's own, of the documents and of those that a patch deleted; see Learned.
	Keys []string
}

// Build builds the directory dir of fsys. Documents are nil where a finding is fatal; a finding that is not comes with
// them. dir without a kustomization file is all its documents in lexical order of their files. To do it often, keep a
// Builder.
func Build(fsys fs.FS, dir string) (Result, []origin.Finding) { return new(Builder).Build(fsys, dir) }

// Builder is Build with a memory: an unchanged file costs its digest, a document that nothing touched anew no merging.
// The memory is keyed by content, bounded, and safe to lose; the zero value is ready. It may be used by several
// goroutines. Documents share memory with each other: do not change them.
type Builder struct {
	declared  memory[declared]
	layers    memory[parsed]
	bodies    memory[*body]
	documents memory[*built]
	// before is called before a document is built; tests break things in it. less is a lower limit of work for them.
	before func(name string)
	less   int
}

// Limits on one build: far beyond what repositories hold, far below what hurts.
const (
	maxFindings  = 1000
	maxBytes     = 256 << 20 // of all files that are read
	maxHeld      = 8 << 20   // of files whose trees are held until all layers are known
	maxDocuments = 20_000
	maxLayers    = 2000 // directories, each as often as it is listed
	maxNesting   = 50
	maxWork      = 512 << 20 // bytes of documents and patches, each as often as it is patched
	maxGrown     = 8 << 20   // of one document

	// A small repository may not ask for much work: 16 MiB take less than two seconds of CPU.
	freeWork    = 16 << 20
	workPerByte = 200 // and so much more for each byte that was read
)

// builder gathers one build.
type builder struct {
	*Builder
	tree
	files    map[string]*file
	ordered  []*file
	layersOf map[string]*layer
	dropped  []*document // deleted by a patch
	states   map[string]*state
	findings []origin.Finding
	isolated bool // see merge
	spent
	outcomes
	sharing
}

// sharing is what a build and its caller need not do twice.
type sharing struct {
	parsed map[string]*yaml.Node // see Result.Parsed
	known  map[string]bool       // see BuildKnowing
}

// spend counts work, and tells whether there may be more.
func (b *builder) spend(bytes int) bool {
	b.work += bytes
	limit := min(maxWork, freeWork+workPerByte*b.tree.bytes)
	if b.less > 0 {
		limit = b.less
	}
	return b.work <= limit
}

// spent is what a build has used of what it may use.
type spent struct{ held, work int }

// Build builds the directory dir of fsys, as the function of that name does.
func (m *Builder) Build(fsys fs.FS, dir string) (Result, []origin.Finding) {
	return m.BuildKnowing(fsys, dir, nil)
}

// BuildKnowing is Build for a caller that knows already what became of documents with these keys: they may come without
// Source and Origin, where the builder has learned of them and has not seen them.
func (m *Builder) BuildKnowing(fsys fs.FS, dir string, known map[string]bool) (Result, []origin.Finding) {
	b := &builder{
		Builder: m, tree: tree{fs: fsys, reads: map[string]string{}}, files: map[string]*file{}, layersOf: map[string]*layer{},
		states: map[string]*state{}, outcomes: outcomes{of: map[*step]*outcome{}}, sharing: sharing{map[string]*yaml.Node{}, known},
	}
	docs := b.walk(path.Clean(dir))
	var out Result
	if !origin.Fatal(b.findings) {
		out.Documents = b.build(docs)
	}
	if origin.Fatal(b.findings) {
		b.known = nil
		return Result{AsWritten: b.asWritten(), Parsed: b.parsed}, sorted(b.findings)
	}
	out.Parsed = b.parsed
	for _, d := range slices.Concat(docs, b.dropped) {
		out.Keys = append(out.Keys, d.now())
	}
	b.unlisted()
	for _, f := range sortedKeys(b.reads) {
		out.Reads = append(out.Reads, origin.File{Path: f, Blob: b.reads[f]})
	}
	return out, sorted(b.findings)
}

// build takes all documents through their layers.
func (b *builder) build(docs []*document) []Document {
	var out []Document
	for _, d := range slices.Concat(docs, b.dropped) { // what is deleted must be right up to there
		made := b.evaluate(d)
		b.add(made.findings...)
		b.note(d, made)
		if !made.deleted && !origin.Fatal(made.findings) {
			out = append(out, made.document)
		}
	}
	if !origin.Fatal(b.findings) {
		b.add(b.conclude(b.layersOf)...)
	}
	return out
}

// asWritten are the documents that the guard let through, without their patches.
func (b *builder) asWritten() []Document {
	bad := map[string]bool{}
	for _, f := range b.findings {
		bad[f.At.File] = bad[f.At.File] || !f.Warning
	}
	files := slices.Clone(b.ordered)
	slices.SortStableFunc(files, func(x, y *file) int { return cmp.Compare(x.name, y.name) })
	var out []Document
	for _, f := range files {
		if bad[f.path] || f.broken {
			continue
		}
		if made := b.evaluate(newDocument(f)); !origin.Fatal(made.findings) {
			out = append(out, made.document)
		}
	}
	return out
}

func (b *builder) add(fs ...origin.Finding) {
	b.findings = append(b.findings, fs...)
}

// sorted are findings by place. A bomb has more of them than anybody reads.
func sorted(findings []origin.Finding) []origin.Finding {
	out := slices.Clone(findings)
	slices.SortStableFunc(out, func(x, y origin.Finding) int { return x.At.Compare(y.At) })
	out = slices.Compact(out)
	if len(out) > maxFindings {
		more := len(out) - maxFindings
		slices.SortStableFunc(out, func(x, y origin.Finding) int { return cmp.Compare(weigh(x), weigh(y)) })
		out = append(out[:maxFindings:maxFindings], origin.Finding{Warning: true, Rule: "more", Message: fmt.Sprintf("%d more findings are left out", more)})
	}
	return out
}

func weigh(f origin.Finding) int {
	if f.Warning {
		return 1
	}
	return 0
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
