package transpile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/overlay"
)

// cleanFS is a tree's file system without what was refused. A tree on disk has none of it anyway; a plain directory of
// a user's may. It reads each file once in its life, which is one run's: a memory compares what the build reads next.
type cleanFS struct {
	fs.FS
	refused map[string]string
	files   *sync.Map // path → *contents
}

// contents of a file, and their digest once somebody asks for it.
type contents struct {
	raw []byte
	sum func() string
}

// clean returns the tree's files without its refused entries, and those by path.
func clean(tree source.Tree) (fs.FS, map[string]string) {
	refused := map[string]string{}
	for _, r := range tree.Refused {
		refused[r.Path] = r.Why
	}
	return cleanFS{tree.FS, refused, &sync.Map{}}, refused
}

// Open refuses what lies at or below a refused entry, and says why.
func (c cleanFS) Open(name string) (fs.File, error) {
	if err := c.check("open", name); err != nil {
		return nil, err
	}
	return c.FS.Open(name)
}

// ReadFile returns a file's contents, which are the caller's.
func (c cleanFS) ReadFile(name string) ([]byte, error) {
	known, err := c.read(name)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(known.raw), nil
}

// Kept returns a file's contents, which nobody may change, and their digest.
func (c cleanFS) Kept(name string) ([]byte, string, error) {
	known, err := c.read(name)
	if err != nil {
		return nil, "", err
	}
	return known.raw, known.sum(), nil
}

func (c cleanFS) read(name string) (*contents, error) {
	if err := c.check("open", name); err != nil {
		return nil, err
	}
	if known, ok := c.files.Load(name); ok {
		return known.(*contents), nil
	}
	raw, err := fs.ReadFile(c.FS, name)
	if err != nil {
		return nil, err
	}
	known := &contents{raw, sync.OnceValue(func() string {
		sum := sha256.Sum256(raw)
		return hex.EncodeToString(sum[:])
	})}
	c.files.Store(name, known)
	return known, nil
}

// Stat describes a file without opening it, where the tree's own file system can do so.
func (c cleanFS) Stat(name string) (fs.FileInfo, error) {
	if err := c.check("stat", name); err != nil {
		return nil, err
	}
	return fs.Stat(c.FS, name)
}

// ReadDir lists a directory in lexical order, without its refused entries.
func (c cleanFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := c.check("readdir", name); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(c.FS, name)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		_, no := c.refused[path.Join(name, e.Name())]
		return no
	}), err
}

func (c cleanFS) check(op, name string) error {
	for p := name; p != "." && p != "/" && p != ""; p = path.Dir(p) {
		if why, no := c.refused[p]; no {
			return &fs.PathError{Op: op, Path: name, Err: errors.New("it is a " + why + ", which is not followed; put the file itself here")}
		}
	}
	return nil
}

// isDocument tells whether a file would be read as a document or a cluster object, by its name.
func isDocument(file string) bool {
	ext := path.Ext(file)
	return isPlainDocument(file) || ext == ".yaml" || ext == ".yml" || path.Base(file) == "Kustomization"
}

// isPlainDocument tells whether a file is a document by its name alone.
func isPlainDocument(file string) bool { return overlay.IsButane(file) || path.Ext(file) == ".ign" }
