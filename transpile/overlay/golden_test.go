package overlay_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay"
)

var update = flag.Bool("update", false, "write the goldens anew; read the diff before you commit it")

// Each file of testdata is one sentence about overlays: a repository, and what its directory o becomes.
func TestGolden(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no goldens:", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			repo, want := fstest.MapFS{}, ""
			kept := archive.Files[:0]
			for _, f := range archive.Files {
				if f.Name == "want" {
					want = string(f.Data)
					continue
				}
				repo[f.Name] = &fstest.MapFile{Data: f.Data}
				kept = append(kept, f)
			}
			got := show(overlay.Build(repo, "o", nil))
			if !*update {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				return
			}
			archive.Files = append(kept, txtar.File{Name: "want", Data: []byte(got)})
			if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// show prints findings, then each document's lines with the places of what stands in them.
func show(built overlay.Result, found []origin.Finding) string {
	var b strings.Builder
	for _, f := range found {
		severity := "error"
		if f.Warning {
			severity = "warning"
		}
		fmt.Fprintf(&b, "%s: %s: %s [%s]\n", f.At, severity, f.Message, f.Rule)
	}
	for _, d := range built.Documents {
		fmt.Fprintf(&b, "%s %s (%s)\n", d.Kind, d.Name, d.File)
		var paths []string
		for p := range d.Origin.At {
			paths = append(paths, p)
		}
		slices.Sort(paths)
		for _, line := range strings.Split(strings.TrimRight(string(d.Source), "\n"), "\n") {
			fmt.Fprintf(&b, "| %s\n", line)
		}
		for _, p := range paths {
			fmt.Fprintf(&b, "  %-50s %s\n", p, d.Origin.At[p])
		}
	}
	return b.String()
}
