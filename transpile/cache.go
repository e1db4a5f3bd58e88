package transpile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"sync"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// keepRuns is after how many runs the Transpiler drops an unused entry. The number is large enough for a few sources
// that use one Transpiler in turn.
const keepRuns = 8

// Transpiler runs Fragments with two caches, by digest: one of whole trees and one of single documents. A program that
// drops a Transpiler loses only the caches. The zero value of Transpiler is ready for use. Several goroutines may use
// one Transpiler. Results share memory: do not change them.
type Transpiler struct {
	// LargeFiles is true if machines can read files that are too large for a MachineConfig from the content store.
	// Otherwise such a file is an error. Set it before the first use.
	LargeFiles bool
	// ImagesByTag is true if images need no digest, as in a commit from before Bunsen required one. Set it before the
	// first use.
	ImagesByTag bool

	mu        sync.Mutex
	turn      int
	trees     map[string]treeEntry
	documents map[string]documentEntry
}

// treeEntry is the cached result of a whole tree.
type treeEntry struct {
	result Result
	used   int
}

// documentEntry is the cached result of one document, with the files that the document includes.
type documentEntry struct {
	included []included
	fragment Fragment
	findings []origin.Finding
	used     int
}

// Fragments turns a tree into fragments, cluster objects and a report, as the function of that name does.
func (t *Transpiler) Fragments(tree source.Tree) Result {
	out, _ := t.FragmentsUntil(tree, nil) // There is no error, because a nil stop never ends the run.
	return out
}

// FragmentsUntil is Fragments, but ends early if stop returns an error. FragmentsUntil calls stop before each pool and
// each document. If stop returns an error, FragmentsUntil returns this error with an empty result, and does not cache
// the tree. If stop is nil, FragmentsUntil never ends early.
func (t *Transpiler) FragmentsUntil(tree source.Tree, stop func() error) (Result, error) {
	key := treeKey(tree)
	if hit, ok := t.tree(key); ok {
		return hit, nil
	}
	asked := &stopper{ask: stop}
	out := recovered(openRepository(tree), t, asked)
	if asked.err != nil {
		return Result{}, asked.err
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

// recovered calls fragmentsOf, and turns a panic into an error in the tree's report.
func recovered(repo repository, t *Transpiler, stop *stopper) (out Result) {
	var found origin.Findings
	defer func() {
		if p := recover(); p != nil {
			found.Errorf(origin.Pos{}, "internal", "reading the repository: %v", fault.NewPanic(p))
			out = Result{Report: report(found.List)}
		}
	}()
	return fragmentsOf(repo, t, stop, &found)
}

// treeKey returns the cache's key of a tree, or "" if the tree has no digest.
func treeKey(tree source.Tree) string {
	if tree.Digest == "" {
		return ""
	}
	return fmt.Sprint(tree.Digest, tree.Refused)
}

// tree counts a new run, and returns the cached result of a tree.
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

// forget drops entries that no recent run used. The caller holds the lock.
func (t *Transpiler) forget() {
	old := t.turn - keepRuns
	maps.DeleteFunc(t.trees, func(_ string, e treeEntry) bool { return e.used < old })
	maps.DeleteFunc(t.documents, func(_ string, e documentEntry) bool { return e.used < old })
}

// document returns the cached result of a document whose included files have not changed.
func (t *Transpiler) document(repo repository, key string) (documentEntry, bool) {
	t.mu.Lock()
	hit, ok := t.documents[key]
	t.mu.Unlock()
	if !ok || !repo.hasUnchanged(hit.included) {
		return documentEntry{}, false
	}
	t.keepDocument(key, hit)
	return hit, true
}

// keepDocument caches a document that has no fatal finding.
func (t *Transpiler) keepDocument(key string, e documentEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.documents == nil {
		t.documents = map[string]documentEntry{}
	}
	e.used = t.turn
	t.documents[key] = e
}

// key is a digest of everything that a fragment depends on, except the files that the document includes.
func (n named) key(pool string) string {
	text := fmt.Appendf(nil, "%q %q %q", pool, n.name, n.doc.Key)
	for _, d := range n.joined {
		text = fmt.Appendf(text, " %q", d.Key)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
