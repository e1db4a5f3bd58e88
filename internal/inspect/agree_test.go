package inspect_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/inspect"
)

// TestANodeAndItsPoolAgree: where a node at work needs a person, the answer for its pool says so, too.
func TestANodeAndItsPoolAgree(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no screens in testdata: %v", err)
	}
	stuck := 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := parse(t, archive.Files[0].Data)
		for _, row := range inspect.NewStatus(c.Cluster, noon).Nodes {
			if row.Pool == "" || !row.InFlight() {
				continue
			}
			node, err := inspect.WhyNode(c.Cluster, row.Name, noon)
			if err != nil {
				t.Fatal(err)
			}
			pool, err := inspect.WhyPool(c.Cluster, row.Pool, noon)
			if err != nil {
				t.Fatal(err)
			}
			if node.Outcome != inspect.Blocked {
				continue
			}
			stuck++
			if pool.Outcome == inspect.Fine || pool.Outcome == inspect.Progressing {
				t.Errorf("%s: node %s is %s (%s), and its pool %s (%s)", filepath.Base(file), row.Name, node.Outcome,
					node.Reason, pool.Outcome, pool.Reason)
			}
		}
	}
	if stuck < 3 {
		t.Errorf("only %d nodes at work need a person", stuck)
	}
}

// TestAToDoHasOneRevert: two ranges to revert would be two recipes for one thing.
func TestAToDoHasOneRevert(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no screens in testdata: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, screen := range archive.Files[1:] {
			if n := strings.Count(string(screen.Data), "git revert --no-edit"); n > 1 {
				t.Errorf("%s: %s has %d ranges to revert", filepath.Base(file), screen.Name, n)
			}
		}
	}
}
