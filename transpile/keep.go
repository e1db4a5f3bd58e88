package transpile

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Beside documents, the shelf keeps what whole directories and whole trees gave. They name their parts by key, so that
// what has not changed is kept once.

// keeper is a transpiler with a shelf.
type keeper struct{ *Transpiler }

// exactKey is the key of a document's entry that holds for its local files as they were; that of the document alone has
// the entry of those that it took in last.
func (e documentEntry) exactKey(key string) string {
	if len(e.locals) == 0 {
		return key
	}
	w := &writer{}
	writeList(w, e.locals, w.local)
	return shelfKey("exact", key, string(w.raw))
}

// shelfKey of a pool's entry is a digest of all that the pool was made of.
func (e poolEntry) shelfKey(dir string) string {
	w := &writer{}
	writeList(w, e.reads, w.file)
	writeList(w, e.locals, w.local)
	return shelfKey("pool", dir, string(w.raw))
}

// latestKey is where the key of the entry stands that a directory got last.
func latestKey(dir string) string { return shelfKey("latest", dir) }

// putPool keeps what a pool's directory gave, and makes it the latest.
func (k keeper) putPool(dir string, e poolEntry) {
	w := &writer{}
	writeList(w, e.reads, w.file)
	writeList(w, e.locals, w.local)
	writeList(w, e.documents, func(d documentRef) {
		w.text(d.key)
		w.text(d.overlay)
	})
	writeList(w, e.findings, w.finding)
	w.text(e.learned)
	k.Shelf.Put(e.key, w.seal(e.key))
	w = &writer{}
	w.text(e.key)
	k.Shelf.Put(latestKey(dir), w.seal(latestKey(dir)))
}

// latest is what a directory gave last, in any tree.
func (k keeper) latest(dir string) (poolEntry, bool) {
	key := latestKey(dir)
	raw, ok := k.Shelf.Get(key)
	if !ok {
		return poolEntry{}, false
	}
	r := unseal(key, raw)
	at := r.text()
	if !r.whole() {
		return poolEntry{}, false
	}
	return k.entry(dir, at)
}

// entry is a pool's entry, of this process or of the shelf.
func (k keeper) entry(dir, key string) (poolEntry, bool) {
	if e, ok := k.remembered(dir, key); ok {
		return e, true
	}
	e, ok := k.pool(dir, key)
	if ok {
		k.rememberPool(dir, e)
	}
	return e, ok
}

// pool reads a pool's entry with its documents. It is false where any of them is missing.
func (k keeper) pool(dir, key string) (poolEntry, bool) {
	raw, ok := k.Shelf.Get(key)
	if !ok {
		return poolEntry{}, false
	}
	r := unseal(key, raw)
	e := poolEntry{
		key: key, reads: readList(r, r.file), locals: readList(r, r.local),
		documents: readList(r, func() documentRef { return documentRef{r.text(), r.text()} }),
		findings:  readList(r, r.finding), learned: r.text(),
	}
	if !r.whole() || e.shelfKey(dir) != key {
		return poolEntry{}, false
	}
	for _, d := range e.documents {
		hit, ok := k.shelved(d.key)
		if !ok {
			return poolEntry{}, false
		}
		e.fragments = append(e.fragments, hit.fragment)
	}
	return e, true
}

// putTree keeps what a tree gave. Pools are the keys of its pools' entries.
func (k keeper) putTree(key string, out Result, pools []string) {
	w := &writer{}
	writeList(w, out.Pools, w.text)
	writeList(w, pools, w.text)
	for _, o := range out.Cluster {
		raw, err := o.Object.MarshalJSON()
		if err != nil {
			return // what cannot be written is made again
		}
		w.flag(true)
		w.text(string(raw))
		w.text(o.Digest)
		w.text(o.File)
		w.number(o.Line)
	}
	w.flag(false)
	writeList(w, out.Report, func(e Entry) {
		w.number(int(e.Severity))
		w.text(e.Rule)
		w.text(e.Message)
		w.pos(origin.Pos{File: e.File, Line: e.Line, Column: e.Column})
	})
	k.Shelf.Put(shelfKey("tree", key), w.seal(shelfKey("tree", key)))
}

// tree reads what a tree gave.
func (k keeper) tree(key string) (Result, bool) {
	at := shelfKey("tree", key)
	raw, ok := k.Shelf.Get(at)
	if !ok {
		return Result{}, false
	}
	r := unseal(at, raw)
	out := Result{Pools: readList(r, r.text)}
	keys := readList(r, r.text)
	for r.flag() {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(r.text())); err != nil {
			return Result{}, false
		}
		out.Cluster = append(out.Cluster, ClusterObject{Object: u, Digest: r.text(), File: r.text(), Line: r.number()})
	}
	out.Report = readList(r, func() Entry {
		e := Entry{Severity: Severity(r.number()), Rule: r.text(), Message: r.text()}
		at := r.pos()
		e.File, e.Line, e.Column = at.File, at.Line, at.Column
		return e
	})
	if !r.whole() || len(keys) != len(out.Pools) {
		return Result{}, false
	}
	for i, pool := range out.Pools {
		e, ok := k.entry(poolDir(pool), keys[i])
		if !ok {
			return Result{}, false
		}
		out.Fragments = append(out.Fragments, e.fragments...)
	}
	out.Fragments = inOrder(out.Fragments)
	return out, true
}

// remembered is a pool's entry that this process has.
func (k keeper) remembered(dir, key string) (poolEntry, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.pools[dir] {
		if e.key == key {
			return e, true
		}
	}
	return poolEntry{}, false
}
