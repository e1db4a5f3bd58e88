package objects

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnusedFoldersAreRemoved: each renewed token has another folder, and only Open runs while the process does.
func TestUnusedFoldersAreRemoved(t *testing.T) { synctest.Test(t, testUnusedFoldersAreRemoved) }

func testUnusedFoldersAreRemoved(t *testing.T) {
	dir := t.TempDir()
	c, err := NewCache(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	get := func(key string) *Folder {
		t.Helper()
		f, err := c.Open(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	isThere := func(f *Folder) bool {
		_, err := os.Stat(filepath.Join(f.dir, "objects"))
		return err == nil
	}
	held, old, used := get("held"), get("token 1"), get("used")
	old.Close()
	used.Close()
	time.Sleep(23 * time.Hour)
	get("used").Close()
	if !isThere(old) {
		t.Error("a folder that was used in the last day was removed")
	}
	time.Sleep(2 * time.Hour)
	get("token 2").Close()
	if isThere(old) {
		t.Error("a folder that was not used for a day is still there")
	}
	if !isThere(held) || !isThere(used) {
		t.Errorf("a folder in use was removed: held %t, used %t", !isThere(held), !isThere(used))
	}
	held.Close()
	if len(c.locks) > 0 {
		t.Errorf("the cache has %d locks that nobody holds", len(c.locks))
	}
}
