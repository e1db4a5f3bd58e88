package transpile_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// shelf is one in memory, which counts what is put on it.
type shelf struct {
	mu   sync.Mutex
	kept map[string][]byte
	puts int
}

func (s *shelf) Get(key string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.kept[key]
	return bytes.Clone(v), ok
}

func (s *shelf) Put(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[key] = bytes.Clone(value)
	s.puts++
}

func TestAShelfChangesNothingButTheCost(t *testing.T) {
	kept := &shelf{kept: map[string][]byte{}}
	for name, tree := range archives(t) {
		want := transpile.Fragments(tree)
		for _, digest := range []string{"", "sha256:" + name} {
			tree.Digest = digest
			for _, when := range []string{"empty", "full"} {
				kept.puts = 0
				if diff := cmp.Diff(want, (&transpile.Transpiler{Shelf: kept}).Fragments(tree)); diff != "" {
					t.Errorf("%s with an %s shelf (-without +with):\n%s", name, when, diff)
				}
			}
			if kept.puts > 0 && !want.Report.Fatal() {
				t.Errorf("%s: a full shelf was given %d entries again", name, kept.puts)
			}
		}
	}
	if len(kept.kept) < 20 {
		t.Errorf("only %d entries are on the shelf", len(kept.kept))
	}
}

// After each change of each kind of file, a new process with a shelf full of what was before must give what one without
// a shelf gives, and so must one that goes on.
func TestAShelfNoticesEveryChange(t *testing.T) {
	kept := &shelf{kept: map[string][]byte{}}
	goesOn := &transpile.Transpiler{Shelf: kept}
	n := 0
	eachChange(t, func(what string, tree source.Tree) {
		n++
		for _, digest := range []string{"", fmt.Sprint("sha256:", n)} {
			tree.Digest = digest
			want := transpile.Fragments(tree)
			for who, memory := range map[string]*transpile.Transpiler{"new process": {Shelf: kept}, "old process": goesOn, "newer process": {Shelf: kept}} {
				if diff := cmp.Diff(want, memory.Fragments(tree)); diff != "" {
					t.Errorf("%s, in a %s (-without +with):\n%s", what, who, diff)
				}
			}
		}
	})
}

// A tree that was seen before is not read again, and of one that differs only what changed is translated.
func TestAFullShelfSavesTheWork(t *testing.T) {
	kept := &shelf{kept: map[string][]byte{}}
	root := t.TempDir()
	doc := "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/"
	for _, name := range []string{"worker/10-a", "worker/20-b", "master/10-c"} {
		write(t, root, "pools/"+name+".bu", doc+name+"\n")
	}
	tree := source.Tree{Root: root, FS: os.DirFS(root), Digest: "sha256:1"}
	want := (&transpile.Transpiler{Shelf: kept}).Fragments(tree)
	write(t, root, "pools/worker/20-b.bu", doc+"else\n")
	if diff := cmp.Diff(want, (&transpile.Transpiler{Shelf: kept}).Fragments(tree)); diff != "" { // by its digest alone
		t.Errorf("(-first +second):\n%s", diff)
	}
	tree.Digest, kept.puts = "sha256:2", 0
	if diff := cmp.Diff(transpile.Fragments(tree), (&transpile.Transpiler{Shelf: kept}).Fragments(tree)); diff != "" {
		t.Errorf("(-without +with):\n%s", diff)
	}
	if kept.puts != 4 { // the document, its pool, that this is the latest, and the tree
		t.Errorf("the shelf was given %d entries", kept.puts)
	}
}

func TestAShelfNoticesChangedLocalFiles(t *testing.T) {
	kept := &shelf{kept: map[string][]byte{}}
	root := t.TempDir()
	tree := source.Tree{Root: root, FS: os.DirFS(root)}
	write(t, root, "pools/worker/10-a.bu", "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/a\n      contents: {local: text}\n")
	for _, text := range []string{"one", "two", "one"} {
		write(t, root, "pools/worker/text", text)
		if diff := cmp.Diff(transpile.Fragments(tree), (&transpile.Transpiler{Shelf: kept}).Fragments(tree)); diff != "" {
			t.Errorf("%s (-without +with):\n%s", text, diff)
		}
	}
}

func TestADamagedShelfIsAnEmptyOne(t *testing.T) {
	kept := &shelf{kept: map[string][]byte{}}
	root := t.TempDir()
	tree := source.Tree{Root: root, FS: os.DirFS(root), Digest: "sha256:1"}
	doc := "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/"
	write(t, root, "pools/worker/10-a.bu", doc+"a\n")
	write(t, root, "pools/worker/20-b.bu", doc+"b\n")
	write(t, root, "cluster/a.yaml", "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata: {name: cluster, uid: x}\nspec: {logLevel: Debug}\n")
	want := (&transpile.Transpiler{Shelf: kept}).Fragments(tree)
	keys := slices.Sorted(maps.Keys(kept.kept))
	if len(keys) != 5 || len(want.Fragments) != 2 || len(want.Cluster) != 1 || len(want.Report) != 1 {
		t.Fatalf("the shelf has %d entries of %+v", len(keys), want)
	}
	good := maps.Clone(kept.kept)
	damaged := func(sentence string, damage func()) {
		t.Helper()
		kept.kept = maps.Clone(good)
		damage()
		if diff := cmp.Diff(want, (&transpile.Transpiler{Shelf: kept}).Fragments(tree)); diff != "" {
			t.Errorf("%s (-sound +damaged):\n%s", sentence, diff)
		}
	}
	for i, key := range keys {
		other := keys[(i+1)%len(keys)]
		damaged("entries that stand for each other", func() { kept.kept[key], kept.kept[other] = good[other], good[key] })
		damaged("no entry", func() { delete(kept.kept, key) })
		damaged("an empty entry", func() { kept.kept[key] = nil })
		damaged("half an entry", func() { kept.kept[key] = good[key][:len(good[key])/2] })
		damaged("an entry of something else", func() { kept.kept[key] = []byte(`{"Name": "10-worker-a"}` + string(make([]byte, 64))) })
		for at := 0; at < len(good[key]); at += 1 + len(good[key])/50 {
			damaged(fmt.Sprint("byte ", at), func() {
				kept.kept[key] = bytes.Clone(good[key])
				kept.kept[key][at] ^= 1
			})
		}
	}
	for _, key := range keys {
		damaged("no tree, and one more thing not", func() { clear(kept.kept); kept.kept[key] = good[key] })
		if !maps.EqualFunc(kept.kept, good, bytes.Equal) {
			t.Errorf("the shelf is not mended")
		}
	}
}

// backwards lists directories from their end, as a file system may.
type backwards struct{ fs.FS }

func (b backwards) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(b.FS, name)
	slices.Reverse(entries)
	return entries, err
}

func TestTheOrderOfFilesDoesNotMatter(t *testing.T) {
	for name, tree := range archives(t) {
		want := transpile.Fragments(tree)
		tree.FS = backwards{tree.FS}
		if diff := cmp.Diff(want, transpile.Fragments(tree)); diff != "" {
			t.Errorf("%s (-forwards +backwards):\n%s", name, diff)
		}
	}
}
