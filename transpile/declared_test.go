package transpile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// Builds share what files declare, so no step may change it: after some runs of every golden, the cache has what the
// files themselves declare.
func TestNoStepChangesWhatAFileDeclares(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no goldens:", err)
	}
	compared := 0
	for _, name := range archives {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tree, memory := source.Tree{Root: t.TempDir()}, &Transpiler{}
		tree.FS = os.DirFS(tree.Root)
		for _, f := range archive.Files {
			put(t, tree.Root, f.Name, string(f.Data))
		}
		for range 3 {
			memory.Fragments(tree)
		}
		for key, kept := range memory.declared {
			compared++
			fresh := documents.NewFiles(tree.FS).File(documents.Reference{Path: key.path})
			if diff := cmp.Diff(fresh, kept.file, cmp.AllowUnexported(documents.File{},
				documents.Declaration{})); diff != "" {
				t.Errorf("%s: %s (-file +cache):\n%s", name, key.path, diff)
			}
		}
	}
	if compared < 200 {
		t.Errorf("only %d files were compared", compared)
	}
}

// A process that runs for months keeps what its last runs used, and no more than the limit.
func TestTheCacheOfDeclarationsIsBounded(t *testing.T) {
	root, memory := t.TempDir(), &Transpiler{}
	run := func(i int) {
		put(t, root, "pools/worker/10-a.bu", "variant: fcos\nversion: 1.6.0\n")
		put(t, root, "pools/worker/20-a.bu", fmt.Sprintf("variant: fcos\nversion: 1.6.0\n# %d\n", i))
		memory.Fragments(source.Tree{Root: root, FS: os.DirFS(root)})
		size := 0
		for _, e := range memory.declared {
			size += e.file.Size()
		}
		if memory.declaredSize != size {
			t.Errorf("the cache has %d bytes, and says %d", size, memory.declaredSize)
		}
	}
	for i := range 5 * keepRuns {
		run(i)
	}
	if n := len(memory.declared); n > keepRuns+2 {
		t.Errorf("the cache has %d files", n)
	}
	one := declaredEntry{file: &documents.File{}, size: maxDeclared, used: memory.turn}
	memory.declared[declaredKey{path: "large"}] = one
	memory.declaredSize += one.size
	put(t, root, "pools/worker/30-a.bu", "variant: fcos\nversion: 1.6.0\n")
	memory.Fragments(source.Tree{Root: root, FS: os.DirFS(root)})
	for key := range memory.declared {
		if key.path == "pools/worker/30-a.bu" {
			t.Error("the full cache has one file more")
		}
	}
}

// put writes a file of a repository. Goldens have their wanted output in the same archive.
func put(t *testing.T, root, name, text string) {
	t.Helper()
	if strings.HasPrefix(name, "want/") || name == "refused" {
		return
	}
	file := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
