package transpile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/butane"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// repository is the tree of files that a run of the Transpiler reads.
type repository struct {
	tree source.Tree
	fs   fs.FS // the files of the tree, without the refused entries
	// refused maps the paths of entries that are not in the tree to the reason.
	refused map[string]string
	// files maps the path of each file or directory that a document includes to its files and digests.
	files map[string]includedFiles
}

// included is a file or directory that a document includes, with all files at or below it.
type included struct {
	path  string
	files []origin.File // files has the included files with their digests, as butane.Files returns them.
}

// includedFiles are the files at or below a path of the tree. ok is false if the path cannot be read.
type includedFiles struct {
	files []origin.File
	ok    bool
}

// hasUnchanged reports whether all included files still have the same digests.
func (r repository) hasUnchanged(all []included) bool {
	for _, i := range all {
		if r.refusesPartOf(i.path) {
			return false // Butane refuses the document.
		}
		now, known := r.files[i.path]
		if !known {
			files, err := butane.Files(r.fs, i.path)
			now = includedFiles{files, err == nil}
			r.files[i.path] = now
		}
		if !now.ok || !slices.Equal(now.files, i.files) {
			return false
		}
	}
	return true
}

// refusesPartOf reports whether a refused entry is at a path, above or below it.
func (r repository) refusesPartOf(name string) bool {
	for refused := range r.refused {
		if refused == name || name == "." || strings.HasPrefix(refused, name+"/") ||
			strings.HasPrefix(name, refused+"/") {
			return true
		}
	}
	return false
}

// cleanFS is a tree's file system without the refused entries. (A user's directory may have such entries, an unpacked
// tree has none.) cleanFS reads each file once, so that a digest always belongs to the same contents.
type cleanFS struct {
	fs.FS
	refused map[string]string
	files   *sync.Map // path → *contents
}

// contents are the contents of a file, with their digest, which is computed only once.
type contents struct {
	raw []byte
	sum func() string
}

// Open refuses names at or below a refused entry, and says why.
func (c cleanFS) Open(name string) (fs.File, error) {
	if err := c.check("open", name); err != nil {
		return nil, err
	}
	return c.FS.Open(name)
}

// ReadFile returns a file's contents. The caller may change the returned bytes.
func (c cleanFS) ReadFile(name string) ([]byte, error) {
	known, err := c.read(name)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(known.raw), nil
}

// Kept returns a file's contents, which the caller must not change, and their digest.
func (c cleanFS) Kept(name string) ([]byte, string, error) {
	known, err := c.read(name)
	if err != nil {
		return nil, "", err
	}
	return known.raw, known.sum(), nil
}

// maxRead is the largest file that is read into memory. Documents are smaller. Files that documents include may be
// larger, and are not read as a whole.
const maxRead = 8 << 20

func (c cleanFS) read(name string) (*contents, error) {
	if err := c.check("open", name); err != nil {
		return nil, err
	}
	if known, ok := c.files.Load(name); ok {
		return known.(*contents), nil
	}
	if info, err := fs.Stat(c.FS, name); err == nil && info.Size() > maxRead {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("it has %d bytes, and a document at most %d",
			info.Size(), maxRead)}
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

// Stat describes a file. If the tree's own file system has a method Stat, Stat does not open the file.
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
			text := "it is a " + why + ", which is not followed; put the file itself here"
			switch {
			case strings.Contains(why, ": "): // It has its remedy.
				text = "it is a " + why
			case strings.HasPrefix(why, "the "): // a clause, such as `the name holds a control character`
				text = "it is not read, because " + why + "; rename it"
			}
			return &fs.PathError{Op: op, Path: name, Err: errors.New(text)}
		}
	}
	return nil
}

// isDocument reports whether Bunsen would read a file with this name as a document or a cluster object.
func isDocument(file string) bool {
	ext := path.Ext(file)
	return isPlainDocument(file) || ext == ".yaml" || ext == ".yml" || path.Base(file) == "Kustomization"
}

// isPlainDocument reports whether a file must be a document because of its name, whatever it contains.
func isPlainDocument(file string) bool { return documents.IsButane(file) || path.Ext(file) == ".ign" }
