package adopt_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/adopt"
)

// Whatever comes in, nothing panics, no path leaves the tree, no object is lost, and it is the same the second time.
func FuzzImport(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string, exact bool) {
		opts := adopt.Options{Generated: true, Exact: exact}
		repo, _, err := adopt.Import([]adopt.Input{{Name: "in", Data: []byte(text)}}, opts)
		if err != nil {
			if len(repo.Files)+len(repo.Objects) > 0 {
				t.Errorf("a repository in spite of %v", err)
			}
			return
		}
		keepsThePromises(t, repo)
		again, _, err := adopt.Import([]adopt.Input{{Name: "in", Data: []byte(text)}}, opts)
		if err != nil || show(again) != show(repo) {
			t.Errorf("the same input gives another repository the second time")
		}
	})
}

// Whatever is kept builds, and renders equal. Each try takes an overlay and Butane, so that it finds less in the same
// time.
func FuzzRoundTrip(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string, exact bool) {
		repo, findings, err := adopt.Import([]adopt.Input{{Name: "in", Data: []byte(text)}},
			adopt.Options{Generated: true, Exact: exact})
		if err == nil {
			rendersEqual(t, repo, findings)
		}
	})
}

// seeds are the inputs of the goldens, and cluster objects.
func seeds(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds:", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, entry := range archive.Files {
			if filepath.Dir(entry.Name) == "in" && filepath.Base(entry.Name) != "options" {
				f.Add(string(entry.Data), false)
			}
		}
	}
	for _, file := range []string{
		"../../examples/quickstart/cluster/disruption.yaml",
		"../../examples/quickstart/cluster/infra.yaml",
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), true)
	}
}
