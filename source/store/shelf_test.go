package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/source/store"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func openShelf(t *testing.T, dir, version string, now time.Time) *store.Shelf {
	t.Helper()
	s, err := store.OpenShelf(dir, version, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAShelfGivesBackWhatWasPutToTheSameVersionOnly(t *testing.T) {
	dir := t.TempDir()
	openShelf(t, dir, "one", noon).Put("key/../../with anything", []byte("value"))
	if got, ok := openShelf(t, dir, "one", noon).Get("key/../../with anything"); !ok || string(got) != "value" {
		t.Errorf("got %q, %v", got, ok)
	}
	if _, ok := openShelf(t, dir, "two", noon).Get("key/../../with anything"); ok {
		t.Error("another version reads it")
	}
	if _, ok := openShelf(t, dir, "one", noon).Get("other"); ok {
		t.Error("another key reads it")
	}
}

func TestOnlyTheOwnerMayReadAShelf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	openShelf(t, dir, "one", noon).Put("key", []byte("secret"))
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", p, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatNobodyAskedForInTwoWeeksIsCleared(t *testing.T) {
	dir := t.TempDir()
	s := openShelf(t, dir, "one", noon)
	s.Put("asked for", []byte("1"))
	s.Put("forgotten", []byte("2"))
	s.Put("forgotten too", []byte("3"))
	if _, ok := openShelf(t, dir, "one", noon.Add(10*24*time.Hour)).Get("asked for"); !ok {
		t.Fatal("gone too early")
	}
	later := openShelf(t, dir, "two", noon.Add(15*24*time.Hour)) // whichever version clears
	later.Put("new", []byte("4"))
	s = openShelf(t, dir, "one", noon.Add(15*24*time.Hour))
	for key, want := range map[string]bool{"asked for": true, "forgotten": false, "forgotten too": false} {
		if _, ok := s.Get(key); ok != want {
			t.Errorf("%s: there is %v, want %v", key, ok, want)
		}
	}
	if _, ok := later.Get("new"); !ok {
		t.Error("what is new went too")
	}
}

func TestADirectoryThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenShelf(filepath.Join(file, "below"), "one", noon); err == nil {
		t.Error("want an error")
	}
}

func TestClearingTouchesNothingButShelves(t *testing.T) {
	dir := t.TempDir()
	old := noon.Add(-365 * 24 * time.Hour)
	var strangers []string
	for _, file := range []string{"Documents/thesis.txt", "shelves/Documents/thesis.txt", "0123456789abcdef/" + strings.Repeat("a", 64), "shelves/0123456789abcdef/thesis.txt"} {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
		strangers = append(strangers, file)
	}
	openShelf(t, dir, "one", noon)
	for _, file := range strangers {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("a file that no shelf holds was removed: %v", err)
		}
	}
}

func TestAFolderThatOthersMayWriteToIsNoShelf(t *testing.T) {
	for what, spoil := range map[string]func(dir string) error{
		"the shelves are writable by all": func(dir string) error { return os.Chmod(dir, 0o777) },
		"another user's": func(dir string) error {
			if os.Geteuid() == 0 {
				return os.Chown(dir, 65534, 65534)
			}
			return os.Chmod(dir, 0o720)
		},
		"a link": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".moved"), os.Symlink(dir+".moved", dir))
		},
	} {
		dir := t.TempDir()
		openShelf(t, dir, "one", noon).Put("key", []byte("poison"))
		if err := spoil(filepath.Join(dir, "shelves")); err != nil {
			t.Fatal(err)
		}
		if _, err := store.OpenShelf(dir, "one", noon); err == nil {
			t.Errorf("%s: it was opened", what)
		}
	}
}
