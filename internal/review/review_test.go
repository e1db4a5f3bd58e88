package review_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/review/cluster"
	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/reconcile/render"
	rendercache "github.com/bunsen-os/bunsen/reconcile/render/cache"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

var update = flag.Bool("update", false, "rewrite the goldens; read the diff")

// tree writes the files of an archive below a prefix to disk, as a tree.
func tree(t *testing.T, a *txtar.Archive, prefix string) source.Tree {
	t.Helper()
	root := t.TempDir()
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
	}
	return source.Tree{Root: root, FS: os.DirFS(root), Digest: "sha256:" + t.Name() + prefix}
}

func side(t *testing.T, a *txtar.Archive, name string) (review.Side, transpile.Result) {
	t.Helper()
	res := transpile.Fragments(tree(t, a, name))
	if res.Report.Fatal() {
		t.Fatalf("%s:\n%s", name, res.Report)
	}
	r := review.Render(res, &rendercache.Renderer{}, render.Defaults{})
	if r.Err != nil {
		t.Fatalf("%s: %v", name, r.Err)
	}
	return r.Side(name), res
}

// compared reads base/ and head/ of an archive and compares them under head's policy.
func compared(t *testing.T, a *txtar.Archive) review.Comparison {
	t.Helper()
	base, before := side(t, a, "base")
	head, after := side(t, a, "head")
	was, err := cluster.PolicyOf(before)
	if err != nil {
		t.Fatal(err)
	}
	is, err := cluster.PolicyOf(after)
	if err != nil {
		t.Fatal(err)
	}
	c := review.Compare(base, head, is)
	had, err := cluster.PoolsOf(before)
	if err != nil {
		t.Fatal(err)
	}
	has, err := cluster.PoolsOf(after)
	if err != nil {
		t.Fatal(err)
	}
	return c.WithCluster(cluster.Compare(cluster.State{Policy: was, Pools: had, Objects: before.Cluster},
		cluster.State{Policy: is, Pools: has, Objects: after.Cluster}))
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
