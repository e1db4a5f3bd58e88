package git

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/bunsen-os/bunsen/source"
)

// Directory is a directory for files, and the same directory of an earlier tree. The directory on disk is created with
// its first file, because git has no empty folders.
type Directory struct {
	parent *Directory
	name   string
	into   *os.Root
	// earlier is the directory of the earlier tree. It is nil if the earlier tree has no such directory.
	earlier *os.Root
}

// OpenDirectory opens the directory at the top of a tree.
func OpenDirectory(d source.Destination) (*Directory, error) {
	into, err := os.OpenRoot(d.Dir)
	if err != nil {
		return nil, err
	}
	top := &Directory{into: into}
	if d.Earlier != "" {
		top.earlier, _ = os.OpenRoot(d.Earlier) // Without an earlier tree, all files are written.
	}
	return top, nil
}

// Below returns a directory in d. The caller closes it.
func (d *Directory) Below(name string) *Directory {
	b := &Directory{parent: d, name: name}
	if d.earlier != nil {
		b.earlier, _ = d.earlier.OpenRoot(name) // Without the earlier directory, all files below are written.
	}
	return b
}

// create creates the directory, unless it exists.
func (d *Directory) create() (*os.Root, error) {
	if d.into != nil {
		return d.into, nil
	}
	parent, err := d.parent.create()
	if err != nil {
		return nil, err
	}
	if err := parent.Mkdir(d.name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	d.into, err = parent.OpenRoot(d.name)
	return d.into, err
}

// Close closes the directory. The errors of its files are known: each file was closed with a check.
func (d *Directory) Close() {
	for _, r := range []*os.Root{d.into, d.earlier} {
		if r != nil {
			_ = r.Close()
		}
	}
}

// Unchanged returns the content of a file of the earlier tree, if it is the object with this hash and has at most limit
// bytes. Unchanged compares the content, so it notices if another program changed the file. Windows keeps no modes.
func (d *Directory) Unchanged(name string, hash plumbing.Hash, _ os.FileMode, limit int64) ([]byte, bool) {
	if d.earlier == nil {
		return nil, false
	}
	f, err := d.earlier.Open(name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > limit {
		return nil, false
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, false
	}
	return data, plumbing.ComputeHash(plumbing.BlobObject, data) == hash
}

// Link reports that the directory cannot share a file with the earlier tree.
func (d *Directory) Link(string) bool { return false }

// Write creates a file. The directory must not have a file of that name yet.
func (d *Directory) Write(name string, mode os.FileMode, data []byte) error {
	into, err := d.create()
	if err != nil {
		return err
	}
	f, err := into.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
