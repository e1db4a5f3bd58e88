package transpile

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/overlay"
)

// cleanFS is a tree's file system without what was refused. A tree on disk has none of it anyway; a plain directory of
// a user's may.
type cleanFS struct {
	fs.FS
	refused map[string]string
}

// clean returns the tree's files without its refused entries, and those by path.
func clean(tree source.Tree) (fs.FS, map[string]string) {
	refused := map[string]string{}
	for _, r := range tree.Refused {
		refused[r.Path] = r.Why
	}
	return cleanFS{tree.FS, refused}, refused
}

// Open refuses what lies at or below a refused entry, and says why.
func (c cleanFS) Open(name string) (fs.File, error) {
	if err := c.check("open", name); err != nil {
		return nil, err
	}
	return c.FS.Open(name)
}

// ReadDir lists a directory without its refused entries.
func (c cleanFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := c.check("readdir", name); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(c.FS, name)
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
	return overlay.IsButane(file) || ext == ".yaml" || ext == ".yml" || path.Base(file) == "Kustomization"
}
