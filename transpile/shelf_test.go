package transpile_test

import (
	"bytes"
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
		for _, when := range []string{"empty", "full"} {
			kept.puts = 0
			if diff := cmp.Diff(want, (&transpile.Transpiler{Shelf: kept}).Fragments(tree)); diff != "" {
				t.Errorf("%s with an %s shelf (-without +with):\n%s", name, when, diff)
			}
		}
		if kept.puts > 0 {
			t.Errorf("%s: a full shelf was given %d documents again", name, kept.puts)
		}
	}
	if len(kept.kept) < 20 {
		t.Errorf("only %d documents are on the shelf", len(kept.kept))
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
	tree := source.Tree{Root: root, FS: os.DirFS(root)}
	doc := "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/"
	write(t, root, "pools/worker/10-a.bu", doc+"a\n")
	write(t, root, "pools/worker/20-b.bu", doc+"b\n")
	want := (&transpile.Transpiler{Shelf: kept}).Fragments(tree)
	keys := slices.Sorted(maps.Keys(kept.kept))
	if len(keys) != 2 {
		t.Fatalf("the shelf has %d documents", len(keys))
	}
	good := maps.Clone(kept.kept)
	for sentence, damage := range map[string]func(){
		"entries that stand for each other": func() { kept.kept[keys[0]], kept.kept[keys[1]] = good[keys[1]], good[keys[0]] },
		"an empty entry":                    func() { kept.kept[keys[0]] = nil },
		"half an entry":                     func() { kept.kept[keys[0]] = good[keys[0]][:len(good[keys[0]])/2] },
		"an entry of something else":        func() { kept.kept[keys[0]] = []byte(`{"Name": "10-worker-a"}` + string(make([]byte, 64))) },
	} {
		kept.kept = maps.Clone(good)
		damage()
		if diff := cmp.Diff(want, (&transpile.Transpiler{Shelf: kept}).Fragments(tree)); diff != "" {
			t.Errorf("%s (-sound +damaged):\n%s", sentence, diff)
		}
		if !maps.EqualFunc(kept.kept, good, bytes.Equal) {
			t.Errorf("%s: the shelf is not mended", sentence)
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
