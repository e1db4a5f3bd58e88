package corpus_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/transpile"
)

// What is measured must be what it says: a branch changes as many fragments as it names, with patches and without.
func TestABranchChangesWhatItSays(t *testing.T) {
	for name, patches := range map[string]int{"plain": 0, "patched": 3} {
		t.Run(name, func(t *testing.T) {
			c := corpus.Repository{
				Documents: corpus.Small, Fragments: 12, PerPool: 6, Pools: []string{"worker"},
				Patches: patches,
			}
			repo := t.TempDir()
			if err := c.Git(t.Context(), repo, []corpus.Change{
				{Branch: "none"},
				{Branch: "five", Documents: 5, First: 7},
			}); err != nil {
				t.Fatal(err)
			}
			main := digests(t, repo, "main")
			for branch, want := range map[string]int{"none": 0, "five": 5} {
				changed := 0
				for fragment, digest := range digests(t, repo, branch) {
					if main[fragment] != digest {
						changed++
					}
				}
				if len(main) != 12 || changed != want {
					t.Errorf("of %d fragments %s changes %d, want %d", len(main), branch, changed, want)
				}
			}
		})
	}
}

// digests are those of a revision's fragments by name.
func digests(t *testing.T, repo, revision string) map[string]string {
	t.Helper()
	into := filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(into, 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := git.OpenRevision(t.Context(), git.LocalRevision{Repository: repo, Revision: revision}, into)
	if err != nil {
		t.Fatal(err)
	}
	return fragments(t, tree)
}

func fragments(t *testing.T, tree source.Tree) map[string]string {
	t.Helper()
	result := transpile.Fragments(tree)
	if result.Report.Fatal() {
		t.Fatal(result.Report)
	}
	out := map[string]string{}
	for _, f := range result.Fragments {
		out[f.Name] = f.Digest
	}
	return out
}

func TestMachineConfigsRender(t *testing.T) {
	r, err := render.Merge("worker", corpus.Large.MachineConfigs(5), render.Defaults{})
	if err != nil || len(r.Inputs) != 5 || len(r.Config.Ignition.Storage.Files) < 15 {
		t.Errorf("five MachineConfigs give %d files, %v", len(r.Config.Ignition.Storage.Files), err)
	}
}
