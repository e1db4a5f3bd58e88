package repository_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/source/repository"
)

// TestAStoreIsPrivate: what is in a store is used without a look at the remote.
func TestAStoreIsPrivate(t *testing.T) {
	const stranger = 1500
	for name, test := range map[string]struct {
		make     func(t *testing.T, dir string)
		words    string // empty: the store opens
		needRoot bool
	}{
		"a directory that is not there":      {make: func(*testing.T, string) {}},
		"one of this user that all may read": {make: func(t *testing.T, dir string) { mkdir(t, dir, 0o755) }},
		"one that others may write to":       {make: func(t *testing.T, dir string) { mkdir(t, dir, 0o777) }, words: "other users may write to"},
		"one that a group may write to":      {make: func(t *testing.T, dir string) { mkdir(t, dir, 0o770) }, words: "other users may write to"},
		"records that others may write to":   {make: func(t *testing.T, dir string) { mkdir(t, dir, 0o700); mkdir(t, filepath.Join(dir, "keys"), 0o777) }, words: "other users may write to"},
		"a link to a directory of this user": {make: func(t *testing.T, dir string) { link(t, t.TempDir(), dir) }, words: "is not a directory"},
		"one that another user owns":         {make: func(t *testing.T, dir string) { mkdir(t, dir, 0o700); chown(t, dir, stranger) }, words: "belongs to user 1500", needRoot: true},
		"trees that another user owns": {make: func(t *testing.T, dir string) {
			mkdir(t, dir, 0o700)
			trees := filepath.Join(dir, "trees")
			mkdir(t, trees, 0o700)
			chown(t, trees, stranger)
		}, words: "belongs to user 1500", needRoot: true},
		"one below a directory of another one": {make: func(t *testing.T, dir string) { chown(t, filepath.Dir(dir), stranger) }, words: "belongs to user 1500", needRoot: true},
	} {
		t.Run(name, func(t *testing.T) {
			if test.needRoot && os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			dir := filepath.Join(t.TempDir(), "store")
			test.make(t, dir)
			s, err := repository.Open(dir, 2)
			if test.words != "" {
				if err == nil || !strings.Contains(err.Error(), test.words) ||
					!strings.HasPrefix(err.Error(), "opening the store: ") {
					t.Fatalf("got the error %v, want %q", err, test.words)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, d := range []string{".", "trees", "keys", "new"} {
				if info, err := os.Stat(filepath.Join(dir, d)); err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("%s: %v, %v", d, info.Mode(), err)
				}
			}
		})
	}
}

func mkdir(t *testing.T, dir string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
}

func chown(t *testing.T, dir string, uid int) {
	t.Helper()
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}
