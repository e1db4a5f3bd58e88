package hosttest

import (
	"os"
	"testing"
)

// TempDir is t.TempDir in memory, where that is possible: a host syncs all that it does, which takes long on a disk.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "bunsen-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
