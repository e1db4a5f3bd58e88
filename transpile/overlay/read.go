package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Digest returns the sha256, in hex, of a file's contents, or of a directory's listing.
func Digest(fsys fs.FS, name string) (string, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", name, err)
	}
	if info.IsDir() {
		names, err := listing(fsys, name)
		if err != nil {
			return "", err
		}
		return sum([]byte(strings.Join(names, "\n"))), nil
	}
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", name, err)
	}
	return sum(src), nil
}

// listing returns the names in a directory in lexical order, directories with a slash.
func listing(fsys fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", dir, err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
		if e.IsDir() {
			names[i] += "/"
		}
	}
	return names, nil
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// read returns a file's contents and notes that the build depends on it.
func (b *builder) read(file string) ([]byte, error) {
	src, err := fs.ReadFile(b.fs, file)
	if err != nil {
		return nil, err
	}
	b.reads[file] = sum(src)
	return src, nil
}

// put shows a file to kustomize.
func (b *builder) put(file string, src []byte) error {
	if err := b.memory.WriteFile("/"+file, src); err != nil {
		return fmt.Errorf("showing %q to kustomize: %w; rename it, or its directory, to letters, digits, dots, - and _ only", file, err)
	}
	return nil
}

// write shows a document to kustomize.
func (b *builder) write(file string, n *yaml.Node) {
	src, err := encode(n)
	if err == nil {
		err = b.put(file, src)
	}
	if err != nil {
		b.add(fatal(origin.Pos{File: file}, "kustomize", "%v", err))
	}
}
