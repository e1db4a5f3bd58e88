package transpile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// keepRuns is after how many runs the Transpiler drops an unused entry. The number is large enough for a few sources
// that use one Transpiler in turn.
const keepRuns = 8

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
	// namesItself is true if the document has a name and a role of its own.
	namesItself bool
	used        int
}

// maxDeclared is the largest size of all files in the cache of declarations, in bytes: some 10,000 small documents.
const maxDeclared = 64 << 20

// declaredKey identifies what a file declares.
type declaredKey struct{ path, digest string }

// declaredEntry is the cached declaration of one file.
type declaredEntry struct {
	file       *documents.File
	size, used int
}

// declarations is the Transpiler as the cache of what files declare.
type declarations struct{ *Transpiler }

// Declared returns the file with this path and this digest of its contents, or nil.
func (d declarations) Declared(path, digest string) *documents.File {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := declaredKey{path, digest}
	e, ok := d.declared[key]
	if !ok {
		return nil
	}
	e.used = d.turn
	d.declared[key] = e
	return e.file
}

// Keep caches a file, unless the cache is full: then those in it are worth as much.
func (d declarations) Keep(f *documents.File, digest string) {
	size := f.Size()
	d.mu.Lock()
	defer d.mu.Unlock()
	key := declaredKey{f.Path, digest}
	if _, again := d.declared[key]; again || d.declaredSize+size > maxDeclared {
		return
	}
	if d.declared == nil {
		d.declared = map[declaredKey]declaredEntry{}
	}
	d.declared[key] = declaredEntry{f, size, d.turn}
	d.declaredSize += size
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
	maps.DeleteFunc(t.declared, func(_ declaredKey, e declaredEntry) bool {
		if e.used >= old {
			return false
		}
		t.declaredSize -= e.size
		return true
	})
}

// cached returns the cached result of a document in a pool. That of another pool differs only in its name and its role,
// unless the document names itself, or its translation asks for the pool.
func (t *Transpiler) cached(repo repository, pool string, n named) (documentEntry, bool) {
	if n.isSameInPools() {
		if e, ok := t.document(repo, n.key("")); ok {
			return e.in(pool, n.name)
		}
	}
	return t.document(repo, n.key(pool))
}

// cache caches the result of a document that has no fatal finding.
func (t *Transpiler) cache(pool string, n named, e documentEntry) {
	if n.isSameInPools() && !e.namesItself {
		pool = ""
	}
	key := n.key(pool)
	t.keepDocument(key, e)
	t.storeDocument(key, e)
}

// isSameInPools reports whether the translation of a document does not ask for the pool.
func (n named) isSameInPools() bool {
	return n.doc.Kind == documents.Butane || n.doc.Kind == documents.Ignition
}

// in returns the entry of a pool in which the document has this name; false if it cannot have it.
func (e documentEntry) in(pool, name string) (documentEntry, bool) {
	f := &e.fragment
	if f.Pool == pool && f.Name == name {
		return e, true
	}
	of := f.MachineConfig
	mc := machineConfig(name, pool, of.Annotations[v1alpha1.SecretPathsAnnotation], of.Spec)
	digest, err := kinds.ObjectDigest(mc)
	f.Pool, f.Name, f.MachineConfig, f.Digest = pool, name, mc, digest
	return e, err == nil && badName(name) == ""
}

// document returns the cached result of a document whose included files have not changed.
func (t *Transpiler) document(repo repository, key string) (documentEntry, bool) {
	t.mu.Lock()
	hit, ok := t.documents[key]
	t.mu.Unlock()
	if !ok {
		hit, ok = t.storedDocument(key)
	}
	if !ok || !repo.hasUnchanged(hit.included) {
		return documentEntry{}, false
	}
	t.keepDocument(key, hit)
	return hit, true
}

// storedEntry is a documentEntry in a Store.
type storedEntry struct {
	Included []storedFiles
	Fragment Fragment
	Findings []origin.Finding
	// NamesItself is documentEntry.namesItself.
	NamesItself bool
}

type storedFiles struct {
	Path  string
	Files []origin.File
}

// documentKey is before the key of a document in a Store.
const documentKey = "document "

// storedDocument returns what an earlier process put into the Store.
func (t *Transpiler) storedDocument(key string) (e documentEntry, ok bool) {
	if t.Store == nil {
		return e, false
	}
	text, has := t.Store.Get(documentKey + key)
	var in storedEntry
	if !has || json.Unmarshal(text, &in) != nil {
		return e, false
	}
	e.fragment, e.findings, e.namesItself = in.Fragment, in.Findings, in.NamesItself
	for _, i := range in.Included {
		e.included = append(e.included, included{i.Path, i.Files})
	}
	return e, true
}

// storeDocument stores a document that has no fatal finding beyond the life of the process.
func (t *Transpiler) storeDocument(key string, e documentEntry) {
	if t.Store == nil || t.Keep != nil && !t.Keep(e.fragment) {
		return
	}
	out := storedEntry{Fragment: e.fragment, Findings: e.findings, NamesItself: e.namesItself}
	for _, i := range e.included {
		out.Included = append(out.Included, storedFiles{i.path, i.files})
	}
	out.Fragment.Contents = slices.Clone(e.fragment.Contents)
	for i := range out.Fragment.Contents {
		out.Fragment.Contents[i].FS = nil // withFiles sets it for each tree.
	}
	if text, err := json.Marshal(out); err == nil { // There is no error, because everything in it can be encoded.
		t.Store.Put(documentKey+key, text)
	}
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

// key is a digest of everything that a fragment depends on, except the files that the document includes. Without a
// pool, it is that of a document which is the same in all pools.
func (n named) key(pool string) string {
	name := n.name
	if pool == "" {
		name = ""
	}
	text := fmt.Appendf(nil, "%q %q %q", pool, name, n.doc.Key)
	for _, d := range n.joined {
		text = fmt.Appendf(text, " %q", d.Key)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
