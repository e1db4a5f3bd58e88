package main

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
)

// digest reads and hashes all files below a directory. This is the minimum work to detect changes.
func digest(dir string) error {
	root := os.DirFS(dir)
	return fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		sha256.Sum256(text)
		return err
	})
}
