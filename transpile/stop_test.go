package transpile_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// TestAStoppedRunLeavesNothing stops a run at each point at which it asks: there is an error and no partial result, the
// run asks no more, and the same transpiler then gives the whole result.
func TestAStoppedRunLeavesNothing(t *testing.T) {
	stopped := 0
	for name, tree := range archives(t) {
		want := transpile.Fragments(tree)
		tree.Digest = "sha256:" + name
		for after := 1; ; after++ {
			memory, asked := &transpile.Transpiler{}, 0
			got, err := memory.FragmentsUntil(tree, func() error {
				if asked++; asked >= after {
					return context.Canceled
				}
				return nil
			})
			if err == nil {
				break
			}
			stopped++
			if !errors.Is(err, context.Canceled) || asked != after {
				t.Fatalf("%s stopped at question %d: error %v after %d questions", name, after, err, asked)
			}
			if diff := cmp.Diff(transpile.Result{}, got); diff != "" {
				t.Errorf("%s stopped at question %d gives a partial result:\n%s", name, after, diff)
			}
			if diff := cmp.Diff(want, memory.Fragments(tree)); diff != "" {
				t.Errorf("%s is another one after a stop at question %d (-want +got):\n%s", name, after, diff)
			}
		}
	}
	if stopped < 100 {
		t.Errorf("only %d runs were stopped", stopped)
	}
}

// TestARemovedTreeLeavesNothing removes the directory of a tree in the middle of a run: there is an error and no
// partial result, and the same transpiler gives the whole result when the tree is there again.
func TestARemovedTreeLeavesNothing(t *testing.T) {
	const butane = "variant: fcos\nversion: 1.6.0\n"
	root := filepath.Join(t.TempDir(), "tree")
	fill := func() {
		write(t, root, "pools/worker/10-a.bu", butane)
		write(t, root, "pools/worker/20-b.bu", butane)
	}
	fill()
	tree := source.Tree{Root: root, FS: os.DirFS(root), Digest: "sha256:1"}
	want := transpile.Fragments(tree)
	memory := &transpile.Transpiler{}
	got, err := memory.FragmentsUntil(tree, func() error { return os.RemoveAll(root) })
	if err == nil || !strings.Contains(err.Error(), "was removed while it was read") {
		t.Errorf("the run gives the error %v", err)
	}
	if diff := cmp.Diff(transpile.Result{}, got); diff != "" {
		t.Errorf("the run gives a partial result:\n%s", diff)
	}
	if report := memory.Fragments(tree).Report; !report.Fatal() {
		t.Errorf("Fragments of a removed tree reports %v", report)
	}
	fill()
	if diff := cmp.Diff(want, memory.Fragments(tree)); diff != "" {
		t.Errorf("the tree is another one afterwards (-want +got):\n%s", diff)
	}
}

// TestARunAsksBeforeEachDocument counts the questions: the work between two of them is that of one document.
func TestARunAsksBeforeEachDocument(t *testing.T) {
	const documents = 50
	var files []txtar.File
	for i := range documents {
		files = append(files, txtar.File{
			Name: fmt.Sprintf("pools/worker/%d-a.bu", 10+i),
			Data: fmt.Appendf(nil, "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/%d\n", i),
		})
	}
	asked := 0
	_, err := new(transpile.Transpiler).FragmentsUntil(unpack(t, files), func() error { asked++; return nil })
	if err != nil || asked < documents {
		t.Errorf("%d questions for %d documents, error %v", asked, documents, err)
	}
}

// brittle is a file system that panics where a path is read.
type brittle struct {
	fs.FS
	path string
}

func (b brittle) Open(name string) (fs.File, error) {
	if name == b.path {
		panic("a mistake")
	}
	return b.FS.Open(name)
}

// TestAPanicInOnePoolIsAFindingOfThatPool: the report names the pool, and has the errors of the other pools.
func TestAPanicInOnePoolIsAFindingOfThatPool(t *testing.T) {
	tree := unpack(t, []txtar.File{
		{Name: "pools/infra/10-a.bu", Data: []byte("variant: fcos\nversion: 1.5.0\n")},
		{Name: "pools/worker/10-a.bu", Data: []byte("variant: fcos\nversion: 1.5.0\nstorge: {}\n")},
	})
	tree.FS = brittle{tree.FS, "pools/infra/10-a.bu"}
	var rules []string
	for _, e := range transpile.Fragments(tree).Report {
		if e.Severity == transpile.Fatal {
			rules = append(rules, e.File+" "+e.Rule)
		}
	}
	if want := []string{"pools/infra internal", "pools/worker/10-a.bu unknown-key"}; !slices.Equal(rules, want) {
		t.Errorf("the errors are %q, want %q", rules, want)
	}
}
