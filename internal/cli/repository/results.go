package repository

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/pflag"

	"github.com/bunsen-os/bunsen/internal/results"
	"github.com/bunsen-os/bunsen/internal/review"
)

// Cached says whether a verb uses the results of earlier runs of this program. The zero value does.
type Cached struct{ off bool }

// AddFlag adds the flag that turns it off.
func (c *Cached) AddFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&c.off, "no-cache", false, "compute everything again, and store no results for the next run")
}

// Use lets renderings use the results of earlier runs, and returns a function that stores the new ones. On a machine
// without a directory for them, everything is computed.
func (c Cached) Use(memory *review.Renderings) (done func()) {
	if c.off {
		return func() {}
	}
	store, err := openResults()
	if err != nil {
		return func() {}
	}
	memory.Transpiler.Store, memory.Transpiler.Keep = store, review.Storable(store)
	memory.Renderer.Store = store
	return func() {
		_ = store.Close() // The next run computes what could not be stored, for example on a full disk.
	}
}

func openResults() (*results.Store, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the directory of stored results: %w", err)
	}
	program, err := programVersion()
	if err != nil {
		return nil, err
	}
	return results.Open(filepath.Join(dir, "bunsen", "results"), program, results.Limit, time.Now())
}

// programVersion identifies this executable, also one that was built from changed sources.
func programVersion() (string, error) {
	file, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	// The linker writes the digest of everything that it linked near the beginning.
	head := make([]byte, 64<<10)
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	defer f.Close()
	if _, err := io.ReadFull(f, head); err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	build, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("%s %x %d %d", build, sha256.Sum256(head), info.Size(), info.ModTime().UnixNano()), nil
}
