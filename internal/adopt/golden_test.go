package adopt_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/adopt"
)

var update = flag.Bool("update", false, "write the goldens anew; read the diff before you commit it")

// Each file of testdata is one sentence about dumps: what comes in (in/…), and the repository that it becomes. A file
// in/options has one option a line: generated, exact, pool NAME.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens:", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			inputs, opts := given(t, archive)
			repo, findings := imported(t, opts, inputs...)
			rendersEqual(t, repo, findings)
			got := &txtar.Archive{Comment: archive.Comment}
			for _, f := range archive.Files {
				if strings.HasPrefix(f.Name, "in/") {
					got.Files = append(got.Files, f)
				}
			}
			got.Files = append(got.Files, txtar.File{Name: "findings", Data: told(repo, findings)})
			got.Files = append(got.Files, txtar.Parse([]byte(show(repo))).Files...)
			if *update {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func given(t *testing.T, archive *txtar.Archive) (inputs []adopt.Input, opts adopt.Options) {
	t.Helper()
	for _, f := range archive.Files {
		name, in := strings.CutPrefix(f.Name, "in/")
		switch {
		case !in:
		case name != "options":
			inputs = append(inputs, adopt.Input{Name: name, Data: f.Data})
		default:
			for line := range strings.Lines(string(f.Data)) {
				switch word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word {
				case "generated":
					opts.Generated = true
				case "exact":
					opts.Exact = true
				case "pool":
					opts.Pools = append(opts.Pools, rest)
				default:
					t.Fatalf("no option %q", word)
				}
			}
		}
	}
	return inputs, opts
}

func told(repo adopt.Repository, findings []adopt.Finding) []byte {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintln(&b, f)
	}
	for _, s := range repo.Secrets {
		fmt.Fprintln(&b, "secret:", s)
	}
	names := []string{}
	for _, o := range repo.Objects {
		if o.Skipped == "" {
			names = append(names, o.String())
		}
	}
	slices.Sort(names)
	fmt.Fprintln(&b, "imported:", strings.Join(names, ", "))
	return []byte(b.String())
}
