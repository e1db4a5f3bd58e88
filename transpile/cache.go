package transpile

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/butane"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay"
)

// keepRuns is for how many runs an entry that nobody asks for stays: enough for a few sources in turn.
const keepRuns = 8

// Transpiler is Fragments with a memory: an untouched overlay costs the digests of what it reads, an untouched document
// its own, an untouched tree nothing. The memory is keyed by content alone and safe to lose; the zero value is ready. It
// may be used by several goroutines. Results share memory with each other: do not change them.
type Transpiler struct {
	// Shelf, where there is one, is asked for what this process has not seen. Set it before the first use.
	Shelf Shelf

	builder   overlay.Builder
	mu        sync.Mutex
	turn      int
	trees     map[string]treeEntry
	pools     map[string][]poolEntry
	documents map[string]documentEntry
}

// treeEntry is the result of a whole tree.
type treeEntry struct {
	result Result
	used   int
}

// poolEntry is what a pool's directory gave when it read just this.
type poolEntry struct {
	reads     []origin.File // through overlay.Digest
	locals    []local
	documents []documentRef
	fragments []Fragment
	findings  []origin.Finding
	used      int
	// key and learned are the shelf's: see keeper and overlay.Builder.Learned.
	key, learned string
}

// documentRef names a document that a pool had.
type documentRef struct {
	key     string // of its entry
	overlay string // overlay.Document's Key
}

// local is a file or directory that a document takes in, with all files at or below it.
type local struct {
	path  string
	files []origin.File // through butane.Files
}

// taken is what a document takes in, as it is in this tree.
type taken struct {
	files []origin.File
	there bool
}

// documentEntry is what one document gave, with what it takes in.
type documentEntry struct {
	locals   []local
	fragment Fragment
	findings []origin.Finding
	used     int
}

// Fragments turns a tree into fragments, cluster objects and a report, as the function of that name does.
func (t *Transpiler) Fragments(tree source.Tree) Result {
	out, _ := t.FragmentsUntil(tree, nil) // nothing stops it
	return out
}

// FragmentsUntil is Fragments, and ends early where stop returns an error: it asks before each pool and each document. It then
// returns that error and an empty result, and remembers nothing of the tree as a whole. A nil stop never ends it.
func (t *Transpiler) FragmentsUntil(tree source.Tree, stop func() error) (Result, error) {
	key := treeKey(tree)
	if hit, ok := t.tree(key); ok {
		return hit, nil
	}
	out, ok := Result{}, false
	if t.Shelf != nil && key != "" {
		out, ok = keeper{t}.tree(key)
	}
	if !ok {
		files, refused := clean(tree)
		r := &run{tree: tree, fs: files, refused: refused, cache: t, digests: map[string]string{}, taken: map[string]taken{}, reads: map[string]bool{}, stop: stop}
		out = guarded(r)
		if r.stopped != nil {
			return Result{}, r.stopped
		}
		if t.Shelf != nil && key != "" && !out.Report.Fatal() {
			keeper{t}.putTree(key, out, r.kept)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trees == nil {
		t.trees = map[string]treeEntry{}
	}
	if key != "" {
		t.trees[key] = treeEntry{out, t.turn}
	}
	t.forget()
	return out, nil
}

// guarded reads a tree, where a panic of ours or of a library is an error of the tree: it costs this tree, and no other.
func guarded(r *run) (out Result) {
	defer func() {
		if p := recover(); p != nil {
			r.fatal(origin.Pos{}, "internal", "Bunsen stopped at a mistake of its own while it read this repository: %v; please report it", p)
			out = Result{Report: report(r.findings)}
		}
	}()
	return r.do()
}

// treeKey is empty where a tree cannot be told from another.
func treeKey(tree source.Tree) string {
	if tree.Digest == "" {
		return ""
	}
	return fmt.Sprint(tree.Digest, tree.Refused)
}

func (t *Transpiler) tree(key string) (Result, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn++
	hit, ok := t.trees[key]
	if !ok || key == "" {
		return Result{}, false
	}
	hit.used = t.turn
	t.trees[key] = hit
	return hit.result, true
}

// forget drops what nobody asked for lately. The caller holds the lock.
func (t *Transpiler) forget() {
	old := t.turn - keepRuns
	maps.DeleteFunc(t.trees, func(_ string, e treeEntry) bool { return e.used < old })
	maps.DeleteFunc(t.documents, func(_ string, e documentEntry) bool { return e.used < old })
	for dir, entries := range t.pools {
		t.pools[dir] = slices.DeleteFunc(entries, func(e poolEntry) bool { return e.used < old })
		if len(t.pools[dir]) == 0 {
			delete(t.pools, dir)
		}
	}
}

// pool finds an entry whose reads are what the tree holds now.
func (t *Transpiler) pool(r *run, dir string) (poolEntry, bool) {
	t.mu.Lock()
	entries := slices.Clone(t.pools[dir])
	t.mu.Unlock()
	i := slices.IndexFunc(entries, func(e poolEntry) bool { return r.unchanged(e) })
	if i < 0 {
		return poolEntry{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for j := range t.pools[dir] {
		if slices.Equal(t.pools[dir][j].reads, entries[i].reads) {
			t.pools[dir][j].used = t.turn
		}
	}
	for _, d := range entries[i].documents { // one of them may change next, so they stay
		if e, ok := t.documents[d.key]; ok {
			e.used = t.turn
			t.documents[d.key] = e
		}
	}
	return entries[i], true
}

// unchanged tells whether everything that an entry was made of is still the same.
func (r *run) unchanged(e poolEntry) bool {
	for _, f := range e.reads {
		if r.digest(f.Path) != f.Blob {
			return false
		}
	}
	return r.same(e.locals)
}

// digest is overlay.Digest of what the tree holds, computed once in a run; empty where there is nothing.
func (r *run) digest(name string) string {
	known, ok := r.digests[name]
	if !ok {
		known, _ = overlay.Digest(r.fs, name)
		r.digests[name] = known
	}
	return known
}

// same tells whether what documents take in is as it was.
func (r *run) same(locals []local) bool {
	for _, l := range locals {
		now, known := r.taken[l.path]
		if !known {
			files, err := butane.Files(r.fs, l.path)
			now = taken{files, err == nil}
			r.taken[l.path] = now
		}
		if !now.there || !slices.Equal(now.files, l.files) {
			return false
		}
	}
	return true
}

// latestPool asks the shelf for what a directory gave last, remembers it, and tells whether the tree still holds that.
func (t *Transpiler) latestPool(r *run, dir string) (poolEntry, bool) {
	if t.Shelf == nil {
		return poolEntry{}, false
	}
	e, ok := keeper{t}.latest(dir)
	return e, ok && r.unchanged(e)
}

// learn tells the builder what is known of a directory, and returns the keys of all documents whose entries are here.
func (t *Transpiler) learn(dir string) map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := map[string]bool{}
	for i := range t.pools[dir] {
		e := &t.pools[dir][i]
		if e.learned != "" {
			t.builder.Learn([]byte(e.learned))
			e.learned = ""
		}
		for _, d := range e.documents {
			known[d.overlay] = true
		}
	}
	return known
}

func (t *Transpiler) keepPool(dir string, built overlay.Result, e poolEntry) poolEntry {
	if t.Shelf != nil {
		e.key = e.shelfKey(dir)
		if learned, err := t.builder.Learned(built); err == nil {
			e.learned = string(learned)
		}
		keeper{t}.putPool(dir, e)
		e.learned = "" // the builder knows
	}
	t.rememberPool(dir, e)
	return e
}

func (t *Transpiler) rememberPool(dir string, e poolEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools == nil {
		t.pools = map[string][]poolEntry{}
	}
	e.used = t.turn
	t.pools[dir] = append(t.pools[dir], e)
}

// document finds what a document gave when all that it is made of was the same: here, or on the shelf.
func (t *Transpiler) document(r *run, key string) (documentEntry, bool) {
	hit, ok := t.shelved(key)
	if !ok || !r.same(hit.locals) {
		return documentEntry{}, false
	}
	return hit, true
}

// shelved finds what a document gave, whatever has become of what it takes in.
func (t *Transpiler) shelved(key string) (documentEntry, bool) {
	t.mu.Lock()
	hit, ok := t.documents[key]
	t.mu.Unlock()
	if !ok && t.Shelf != nil {
		var raw []byte
		if raw, ok = t.Shelf.Get(key); ok {
			hit, ok = unshelve(key, raw)
		}
	}
	if ok {
		t.remember(key, hit)
	}
	return hit, ok
}

// keepDocument remembers a document that has no fatal finding.
func (t *Transpiler) keepDocument(key string, e documentEntry) {
	for _, key := range slices.Compact([]string{key, e.exactKey(key)}) {
		t.remember(key, e)
		if t.Shelf != nil {
			t.Shelf.Put(key, shelve(key, e))
		}
	}
}

func (t *Transpiler) remember(key string, e documentEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.documents == nil {
		t.documents = map[string]documentEntry{}
	}
	e.used = t.turn
	t.documents[key] = e
}

// documentKey is a digest of all that a fragment is made of, but for the files that the document takes in.
func documentKey(pool string, d named) string {
	return shelfKey("document", pool, d.name, d.doc.Key)
}
