package review_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/review"

	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/reconcile/render"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

var update = flag.Bool("update", false, "rewrite the goldens; read the diff")

// tree writes the files of an archive below a prefix to disk, as a tree.
func tree(t *testing.T, a *txtar.Archive, prefix string) source.Tree {
	t.Helper()
	root, inventory := t.TempDir(), source.NewInventory(source.Limits{})
	for _, f := range a.Files {
		name, ok := strings.CutPrefix(f.Name, prefix+"/")
		if !ok {
			continue
		}
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
		inventory.Add(name, false, f.Data)
	}
	return source.Tree{
		Root: root, FS: os.DirFS(root), Digest: "sha256:" + t.Name() + prefix, Entries: inventory.Entries(),
	}
}

func side(t *testing.T, a *txtar.Archive, name string) review.Side {
	t.Helper()
	res := transpile.Fragments(tree(t, a, name))
	if res.Report.Fatal() {
		t.Fatalf("%s:\n%s", name, res.Report)
	}
	r := review.Render(res, &render.Renderer{}, render.Defaults{}, nil)
	if r.Err != nil {
		t.Fatalf("%s: %v", name, r.Err)
	}
	return r.Side(name)
}

// compared reads base/ and head/ of an archive and compares them under head's policy.
func compared(t *testing.T, a *txtar.Archive) review.Comparison {
	t.Helper()
	c, err := compare(t, a)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// compare is compared, with the error of a side that cannot be rendered.
func compare(t *testing.T, a *txtar.Archive) (review.Comparison, error) {
	t.Helper()
	var sides [2]review.Side
	for i, name := range []string{"base", "head"} {
		tree := tree(t, a, name)
		res, r, err := new(review.Renderings).Render(tree, nil)
		if err != nil || res.Report.Fatal() {
			return review.Comparison{}, fmt.Errorf("%s: %w\n%s", name, err, res.Report)
		}
		if r.Err != nil {
			return review.Comparison{}, r.Err
		}
		sides[i] = r.Side(name)
		sides[i].Entries, sides[i].Encryption = tree.Entries, review.ReadEncryption(tree.FS)
	}
	return review.Compare(sides[0], sides[1]), nil
}

// TestComparisons replays testdata: a repository before (base/) and after (head/), and what a reviewer is shown.
func TestComparisons(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := compared(t, a)
			raw, err := json.MarshalIndent(c, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{
				"want.txt": report.Text(c, report.Style{}), "want.json": string(raw) + "\n",
				"want.md": report.Markdown(c, report.MarkdownOptions{}),
			}
			for i, f := range a.Files {
				text, ok := got[f.Name]
				if !ok {
					continue
				}
				if *update {
					a.Files[i].Data = []byte(text)
				} else if diff := cmp.Diff(string(f.Data), text); diff != "" {
					t.Errorf("%s differs (-want +got):\n%s", f.Name, diff)
				}
				delete(got, f.Name)
			}
			if _, missing := got["want.txt"]; missing {
				t.Error("the case has no want.txt")
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
