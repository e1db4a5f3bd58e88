package linux_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// benchRoot is a root with so many files four directories deep; it returns their paths.
func benchRoot(b *testing.B, count int) (*files.Root, []string) {
	b.Helper()
	dir := b.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "etc/app/conf.d"), 0o755); err != nil {
		b.Fatal(err)
	}
	root, err := files.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { root.Close() })
	var paths []string
	for i := range count {
		paths = append(paths, fmt.Sprintf("/etc/app/conf.d/%03d.conf", i))
		if err := os.WriteFile(filepath.Join(dir, paths[i]), []byte("text"), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return root, paths
}

// BenchmarkStat looks at 100 files.
func BenchmarkStat(b *testing.B) {
	root, paths := benchRoot(b, 100)
	for b.Loop() {
		for _, p := range paths {
			if _, err := root.Stat(p); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkWrite replaces 100 files in a batch, without its flush.
func BenchmarkWrite(b *testing.B) {
	root, paths := benchRoot(b, 100)
	root.Batch()
	for b.Loop() {
		for _, p := range paths {
			if err := root.Write(p, host.Entry{Mode: 0o644}, []byte("new text")); err != nil {
				b.Fatal(err)
			}
		}
	}
}
