package assets_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bunsen-os/bunsen/standalone/assets"
)

func TestLinks(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "bunsen-standalone")
	for name, tc := range map[string]struct {
		before func(path string) error
		want   string // the link's target; empty when the file is kept
	}{
		"where nothing is a link is made":       {func(string) error { return nil }, elsewhere},
		"a link to something else is turned":    {func(p string) error { return os.Symlink("/old", p) }, elsewhere},
		"the right link stays":                  {func(p string) error { return os.Symlink(elsewhere, p) }, elsewhere},
		"another program of that name is kept":  {func(p string) error { return os.WriteFile(p, []byte("mine"), 0o755) }, ""},
		"a dangling link of an old build turns": {func(p string) error { return os.Symlink("gone", p) }, elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "etcd")
			if err := tc.before(path); err != nil {
				t.Fatal(err)
			}
			kept, err := assets.Link(dir, elsewhere, "etcd")
			if err != nil {
				t.Fatal(err)
			}
			if (len(kept) == 1) != (tc.want == "") {
				t.Errorf("kept %v", kept)
			}
			if got, _ := os.Readlink(path); got != tc.want {
				t.Errorf("link is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestBesideTheExecutableALinkIsABareNameInAFolderThatIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "bin")
	if _, err := assets.Link(dir, filepath.Join(dir, "bunsen-standalone"), "kubectl"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.Readlink(filepath.Join(dir, "kubectl")); got != "bunsen-standalone" {
		t.Errorf("link is %q", got)
	}
}
