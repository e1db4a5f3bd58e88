//go:build !windows

package git

import (
	"errors"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/source"
)

// Directory is a directory for files, and the same directory of an earlier tree. The directory on disk is created with
// its first file, because git has no empty folders.
type Directory struct {
	parent *Directory
	name   string
	into   *os.File
	// earlier is the directory of the earlier tree. It is nil if the earlier tree has no such directory.
	earlier *os.File
}

const openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// OpenDirectory opens the directory at the top of a tree.
func OpenDirectory(d source.Destination) (*Directory, error) {
	into, err := openAt(nil, d.Dir, openFolder, 0)
	if err != nil {
		return nil, err
	}
	top := &Directory{into: into}
	if d.Earlier != "" {
		top.earlier, _ = openAt(nil, d.Earlier, openFolder, 0) // Without an earlier tree, all files are written.
	}
	return top, nil
}

// Below returns a directory in d. The caller closes it.
func (d *Directory) Below(name string) *Directory {
	b := &Directory{parent: d, name: name}
	if d.earlier != nil {
		// Without the earlier directory, all files below are written.
		b.earlier, _ = openAt(d.earlier, name, openFolder|unix.O_NOFOLLOW, 0)
	}
	return b
}

// create creates the directory, unless it exists.
func (d *Directory) create() (*os.File, error) {
	if d.into != nil {
		return d.into, nil
	}
	parent, err := d.parent.create()
	if err != nil {
		return nil, err
	}
	if err := unix.Mkdirat(int(parent.Fd()), d.name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &os.PathError{Op: "mkdir", Path: d.name, Err: err}
	}
	d.into, err = openAt(parent, d.name, openFolder|unix.O_NOFOLLOW, 0)
	return d.into, err
}

// Close closes the directory. The errors of its files are known: each file was closed with a check.
func (d *Directory) Close() {
	for _, f := range []*os.File{d.into, d.earlier} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// Unchanged returns the content of a file of the earlier tree, if it is the object with this hash, has this mode and at
// most limit bytes. Unchanged compares the content, so it notices if another program changed the file.
func (d *Directory) Unchanged(name string, hash plumbing.Hash, mode os.FileMode, limit int64) ([]byte, bool) {
	if d.earlier == nil {
		return nil, false
	}
	f, err := openAt(d.earlier, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode() != mode || info.Size() > limit {
		return nil, false
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, false
	}
	return data, plumbing.ComputeHash(plumbing.BlobObject, data) == hash
}

// Link adds a file of the earlier tree to the directory, without a copy. Link reports whether the file system supports
// hard links.
func (d *Directory) Link(name string) bool {
	into, err := d.create()
	if err != nil {
		return false
	}
	return unix.Linkat(int(d.earlier.Fd()), name, int(into.Fd()), name, 0) == nil
}

// Write creates a file. The directory must not have a file of that name yet.
func (d *Directory) Write(name string, mode os.FileMode, data []byte) error {
	into, err := d.create()
	if err != nil {
		return err
	}
	f, err := openAt(into, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	// The umask removed bits of the mode at creation.
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// openAt opens a file in a directory; nil: in the working directory.
func openAt(dir *os.File, name string, flags int, mode os.FileMode) (*os.File, error) {
	at := unix.AT_FDCWD
	if dir != nil {
		at = int(dir.Fd())
	}
	for {
		fd, err := unix.Openat(at, name, flags, uint32(mode))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		default:
			return os.NewFile(uintptr(fd), name), nil
		}
	}
}
