//go:build !windows

package repository_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/repository"
)

// TestACopyGoesOnAfterAFullDisk makes one write fail, as a full disk does, and then none. It does so in a process of
// its own, because the limit of the size of files is that of the whole process.
func TestACopyGoesOnAfterAFullDisk(t *testing.T) {
	if os.Getenv("FULL_DISK") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$") //nolint:gosec // this test
		cmd.Env = append(os.Environ(), "FULL_DISK=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), "text")
	put(t, filepath.Join(dir, "big"), string(make([]byte, source.SumBytes)))
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := repository.NewCopy(root)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	small := syscall.Rlimit{Cur: 1 << 10, Max: before.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	_, full := c.Tree(t.Context(), nil)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if full == nil {
		t.Fatal("no write failed")
	}
	if _, err := c.Tree(t.Context(), nil); err != nil {
		t.Errorf("with space again: %v", err)
	}
}
