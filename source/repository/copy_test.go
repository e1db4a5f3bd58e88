package repository_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/repository"
)

// TestACopyIsTheTreeOfItsFolder changes a folder at random, and compares the copy with a new tree of the folder after
// each change. Unsaved texts count as the files that they would be.
func TestACopyIsTheTreeOfItsFolder(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			c, err := repository.NewCopy(root)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}()
			texts := map[string]string{}
			for range 25 {
				change(t, random, dir, texts)
				got, err := c.Tree(t.Context(), texts)
				if err != nil {
					t.Fatal(err)
				}
				saved := filepath.Join(t.TempDir(), "saved")
				copyTo(t, dir, saved)
				for name, text := range texts {
					save(t, saved, name, text)
				}
				want, err := repository.OpenDir(t.Context(), saved, t.TempDir(), nil, source.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				if got.Digest != want.Digest || !maps.Equal(got.Entries, want.Entries) ||
					!reflect.DeepEqual(got.Refused, want.Refused) {
					t.Fatalf("the copy is\n%v\n%v\nand the folder\n%v\n%v", got.Entries, got.Refused, want.Entries,
						want.Refused)
				}
				for name, e := range got.Entries {
					have, err := os.ReadFile(filepath.Join(got.Root, name))
					if e.Refused != "" {
						if _, inMemory := fs.ReadFile(got.FS, name); err == nil || inMemory == nil {
							t.Errorf("the copy has %s, which is refused", name)
						}
						continue
					}
					is, readErr := os.ReadFile(filepath.Join(saved, name))
					if err != nil || readErr != nil || string(have) != string(is) {
						t.Errorf("%s is %q in the copy, want %q (%v, %v)", name, have, is, err, readErr)
					}
					sameInMemory(t, got, name)
				}
			}
		})
	}
}

// sameInMemory compares a file of a copy's file system with the one in its directory.
func sameInMemory(t *testing.T, tree source.Tree, name string) {
	t.Helper()
	onDisk := os.DirFS(tree.Root)
	want, err := fs.ReadFile(onDisk, name)
	got, gotErr := fs.ReadFile(tree.FS, name)
	if err != nil || gotErr != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is %.20q, want %.20q (%v, %v)", name, got, want, gotErr, err)
	}
	wanted, err := fs.Stat(onDisk, name)
	info, gotErr := fs.Stat(tree.FS, name)
	if err != nil || gotErr != nil || info.Size() != wanted.Size() || info.Mode() != wanted.Mode() ||
		info.Name() != wanted.Name() {
		t.Errorf("%s is %v, want %v (%v, %v)", name, info, wanted, gotErr, err)
	}
}

// TestACopyHasSmallFilesInMemory takes the directory of the copy away, also after each file has changed.
func TestACopyHasSmallFilesInMemory(t *testing.T) {
	const count, limit = 40, 32
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := repository.NewCopy(root)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var tree source.Tree
	for round := range 2 {
		for i := range count {
			text := strings.Repeat(fmt.Sprint(round), source.SumBytes-1-round)
			put(t, filepath.Join(dir, fmt.Sprintf("%02d", i)), text)
		}
		if tree, err = c.Tree(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(tree.Root); err != nil {
		t.Fatal(err)
	}
	inMemory := 0
	for i := range count {
		if text, err := fs.ReadFile(tree.FS, fmt.Sprintf("%02d", i)); err == nil {
			inMemory++
			if text[0] != '1' {
				t.Errorf("file %d is of an earlier state", i)
			}
		}
	}
	if inMemory != limit {
		t.Errorf("%d of %d files of 1 MiB are in memory, want %d", inMemory, count, limit)
	}
}

var names = []string{"a", "b/c", "b/d/e", "pools/worker/10-a.bu", "big"}

// change makes one change of a folder or of the unsaved texts.
func change(t *testing.T, random *rand.Rand, dir string, texts map[string]string) {
	t.Helper()
	name := names[random.IntN(len(names))]
	at := filepath.Join(dir, name)
	switch random.IntN(7) {
	case 0, 1:
		text := fmt.Sprint(random.IntN(4))
		if name == "big" {
			text = string(make([]byte, source.SumBytes+random.IntN(3)))
		}
		put(t, at, text)
	case 2:
		put(t, at, "version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
	case 3:
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
		delete(texts, name)
	case 4:
		if _, err := os.Lstat(at); err == nil {
			if err := os.Chmod(at, []os.FileMode{0o644, 0o755}[random.IntN(2)]); err != nil {
				t.Fatal(err)
			}
		}
	case 5:
		texts[name] = fmt.Sprint("text ", random.IntN(3))
	case 6:
		clear(texts)
	}
}

func put(t *testing.T, at, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// save writes a text in place of a file, as an editor does.
func save(t *testing.T, dir, name, text string) {
	t.Helper()
	put(t, filepath.Join(dir, name), text)
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// TestANewCopyRemovesWhatAKilledProcessLeft also keeps the copy of a process that runs, and what others made.
func TestANewCopyRemovesWhatAKilledProcessLeft(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	open := func() *repository.Copy {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		c, err := repository.NewCopy(root)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	open()
	put(t, filepath.Join(temporary, "bunsen-copy-left", "lock"), "")
	put(t, filepath.Join(temporary, "bunsen-copy-left", "files", "secret"), "")
	put(t, filepath.Join(temporary, "bunsen-copy-new", "lock.new"), "")
	put(t, filepath.Join(temporary, "other", "lock"), "")
	if err := os.Symlink("other", filepath.Join(temporary, "bunsen-copy-link")); err != nil {
		t.Fatal(err)
	}
	open()
	entries, err := os.ReadDir(temporary)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, e := range entries {
		got[e.Name()] = true
	}
	if got["bunsen-copy-left"] || len(got) != 5 { // two copies, and the three others
		t.Errorf("there are %v", got)
	}
}
