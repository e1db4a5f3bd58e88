package overlay

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Kind of a document.
type Kind string

const (
	// Butane is a plain Butane document of any variant.
	Butane Kind = "Butane"
	// MachineConfig is a whole MachineConfig object.
	MachineConfig Kind = "MachineConfig"
)

// Document is one resource as all layers of the overlay left it.
type Document struct {
	// Name is the file's without its extension, with the overlay's prefixes and suffixes; of a MachineConfig its own.
	Name string
	// Kind of the document.
	Kind Kind
	// File in the repository that declares the document; patches only change it.
	File string
	// Source is the document as YAML; its local files are named relative to the file system's root.
	Source []byte
	// Origin maps paths in the document (`$.storage.files.0.mode`) to the line that wrote them last. Its Files are the
	// declaring file and every file that wrote a line of it.
	Origin origin.Map
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
}

// kustomize keeps its schema in package variables, so only one build may run at a time in a process.
var building sync.Mutex

// builder gathers one build: what kustomize shall see, and what only we know of it.
type builder struct {
	fs       fs.FS
	memory   filesys.FileSystem
	reads    map[string]string
	visited  map[string]bool
	declared map[string][]string // resource name → files that declare it
	kinds    map[declaration]bool
	items    map[item]origin.Pos
	// kustomized directories, with their kustomization files.
	kustomized map[string]string
	edits      []edit
	findings   []origin.Finding
}

// declaration is a document by what a patch's target may say of it.
type declaration struct {
	kind Kind
	name string
}

// edit is a place that changes values without leaving markers: a JSON patch's operation or a replacement.
type edit struct {
	path   string
	target string // regular expression of the documents' names; empty is all
	at     origin.Pos
}

// Build builds the directory dir of fsys. Documents are nil where a finding is fatal; a finding that is not comes with
// them. dir without a kustomization file is all its Butane documents in lexical order.
func Build(fsys fs.FS, dir string) (Result, []origin.Finding) {
	b := &builder{
		fs: fsys, memory: filesys.MakeFsInMemory(),
		reads: map[string]string{}, visited: map[string]bool{}, declared: map[string][]string{}, items: map[item]origin.Pos{},
		kinds: map[declaration]bool{}, kustomized: map[string]string{},
	}
	guard{b}.directory(path.Clean(dir))
	if origin.Fatal(b.findings) {
		return Result{AsWritten: b.asWritten()}, b.sorted()
	}
	found, err := b.kustomize(dir)
	if err != nil {
		b.explain(dir, err)
		return Result{AsWritten: b.asWritten()}, b.sorted()
	}
	var out Result
	for _, yaml := range found {
		d, err := b.unwrap(yaml)
		if err != nil {
			b.add(fatal(origin.Pos{File: b.kustomization(dir)}, "kustomize", "%v", err))
			return Result{}, b.sorted()
		}
		out.Documents = append(out.Documents, d)
	}
	guard{b}.unlisted()
	for _, f := range sortedKeys(b.reads) {
		out.Reads = append(out.Reads, origin.File{Path: f, Blob: b.reads[f]})
	}
	return out, b.sorted()
}

// asWritten reads back the documents that the guard let through.
func (b *builder) asWritten() []Document {
	bad := map[string]bool{}
	for _, f := range b.findings {
		bad[f.At.File] = bad[f.At.File] || !f.Warning
	}
	var out []Document
	for _, name := range sortedKeys(b.declared) {
		for _, file := range b.declared[name] {
			yaml, err := b.memory.ReadFile("/" + file)
			if err != nil || bad[file] {
				continue
			}
			if d, err := b.unwrap(string(yaml)); err == nil {
				out = append(out, d)
			}
		}
	}
	return out
}

func (b *builder) add(fs ...origin.Finding) { b.findings = append(b.findings, fs...) }

func (b *builder) sorted() []origin.Finding {
	slices.SortStableFunc(b.findings, func(x, y origin.Finding) int { return x.At.Compare(y.At) })
	return b.findings
}

// kustomize runs the build under a schema of our own, and turns a panic into an error: it costs one build.
func (b *builder) kustomize(dir string) (docs []string, err error) {
	building.Lock()
	defer building.Unlock()
	defer func() {
		if r := recover(); r != nil {
			docs, err = nil, fmt.Errorf("kustomize panicked: %v", r)
		}
	}()
	keys, err := schema()
	if err != nil {
		return nil, err
	}
	openapi.ResetOpenAPI()
	openapi.SuppressBuiltInSchemaUse()
	if err := openapi.AddSchema(keys); err != nil {
		return nil, fmt.Errorf("adding the schema of merge keys: %w", err)
	}
	opts := krusty.MakeDefaultOptions()
	opts.LoadRestrictions = types.LoadRestrictionsNone // there is nothing in memory but what the guard let through
	var found resmap.ResMap
	if found, err = krusty.MakeKustomizer(opts).Run(b.memory, "/"+path.Clean(dir)); err != nil {
		return nil, err
	}
	for _, r := range found.Resources() {
		// Not Resource.AsYAML: it goes through JSON and turns 0644 into 420 and 1.10 into 1.1.
		s, err := r.RNode.String()
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", r.GetName(), err)
		}
		docs = append(docs, s)
	}
	return docs, nil
}

var (
	duplicateID = regexp.MustCompile(`already registered id: \S*?/([^/\s]+)\.\[`)
	noTarget    = regexp.MustCompile(`no (?:matches for Id|resource matches strategic merge patch) "?\S*?/([^/\s]+)\.\[`)
)

// quoting are the places in kustomize's errors where it prints what stands in documents and patches. Nobody may read that
// in a log or a status.
var quoting = regexp.MustCompile(":? ?(?:node contents: .*|(?:with config: ?)?`.*`|from \\[patch: .*\\]|in the YAML: .*)")

// explain turns kustomize's error into a finding of ours.
func (b *builder) explain(dir string, err error) {
	at := origin.Pos{File: b.kustomization(dir)}
	msg := strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), "'/", "'")
	msg = quoting.ReplaceAllString(msg, "")
	if m := duplicateID.FindStringSubmatch(msg); m != nil {
		files := slices.Clone(b.declared[m[1]])
		slices.Sort(files)
		if files = slices.Compact(files); len(files) > 1 {
			at.File = files[len(files)-1]
			b.add(fatal(at, "duplicate-name", "%s are both the document %q; rename one, or list one of them under patches", strings.Join(files, " and "), m[1]))
			return
		}
		b.add(fatal(at, "duplicate-name", "the document %q (%s) comes in twice; list it, or the directory that lists it, once", m[1], strings.Join(files, "")))
		return
	}
	if m := noTarget.FindStringSubmatch(msg); m != nil {
		b.add(fatal(at, "patch-target", "a patch for %q finds no document of that name; name the patch file as the document's, or give the patch a target", m[1]))
		return
	}
	b.add(fatal(at, "kustomize", "%s", msg))
}

// kustomization names dir's kustomization file, or dir where it has none.
func (b *builder) kustomization(dir string) string {
	for _, n := range kustomizations {
		if _, ok := b.reads[path.Join(dir, n)]; ok {
			return path.Join(dir, n)
		}
	}
	return dir
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
