package overlay

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// memory is a cache that forgets nothing.
type memory struct {
	files map[[2]string]*documents.File
	hits  int
}

// Declared returns a file that Keep got.
func (m *memory) Declared(path, digest string) *documents.File {
	f := m.files[[2]string{path, digest}]
	if f != nil {
		m.hits++
	}
	return f
}

// Keep stores a file.
func (m *memory) Keep(f *documents.File, digest string) {
	if m.files == nil {
		m.files = map[[2]string]*documents.File{}
	}
	m.files[[2]string{f.Path, digest}] = f
}

// Each build gives the same with what all builds before declared, although these are of other repositories with files
// at the same paths, and although it changes documents.
func TestACacheChangesNoBuild(t *testing.T) {
	kept := &memory{}
	for seed := range *cases {
		r := random{Rand: newRand(seed), repo: fstest.MapFS{}}
		r.layer("o", 3)
		want, found := Build(r.repo, "o", nil)
		for _, run := range []string{"first", "second"} {
			got, also := Build(r.repo, "o", kept)
			if diff := cmp.Diff(want, got) + cmp.Diff(found, also); diff != "" {
				t.Fatalf("seed %d, the %s build (-without +with a cache):\n%s\n%s", seed, run, diff, dump(r.repo))
			}
		}
	}
	if kept.hits == 0 {
		t.Error("nothing was found")
	}
}
