package files

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
	"golang.org/x/sys/unix"
)

// openName is a name in an open directory. Changes go to this directory even if a user replaces a link in the path
// meanwhile.
type openName struct {
	root *tree
	dir  int
	name string
	// path is the path on the machine, for errors and traps.
	path string
	// holder is the uid of the user who controls a directory of the path, as in beneath.Dir. shared is true if other
	// users than root can replace the file with this name.
	holder int
	shared bool
}

// at opens the directory of a path. The caller closes it.
func (t *tree) at(p string) (openName, error) {
	if err := checkPath(p); err != nil {
		return openName{}, err
	}
	d, err := t.below.Dir(path.Dir(p))
	if err != nil {
		return openName{}, setErrorPath(p, err)
	}
	a := openName{root: t, dir: d.FD, name: path.Base(p), path: p, holder: d.Holder, shared: d.Shared}
	if p == "/" {
		a.name = "."
	}
	return a, nil
}

// checkPath refuses a path that is not absolute and clean.
func checkPath(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%q is not an absolute, clean path", p)
	}
	return nil
}

// setErrorPath sets the path of an error about its directory.
func setErrorPath(p string, err error) error {
	if bad, ok := err.(*fs.PathError); ok { //nolint:errorlint // the call before returns it unwrapped
		bad.Path = p
	}
	if bad, ok := err.(*host.UnsafePathError); ok { //nolint:errorlint // as above
		bad.Path = p
	}
	return err
}

func (a openName) close() { unix.Close(a.dir) } //nolint:errcheck,gosec // only a place

// sibling returns another name in the same directory.
func (a openName) sibling(name string) openName {
	a.path, a.name = path.Join(path.Dir(a.path), name), name
	return a
}

// change makes a system call, unless the trap returns an error.
func (a openName) change(call string, do func() error) error {
	if a.root.trap != nil {
		if err := a.root.trap(call, a.path); err != nil {
			return pathError(call, a.path, err)
		}
	}
	_, err := retry(func() (int, error) { return 0, do() })
	return pathError(call, a.path, err)
}

// open opens the name. open does not follow a link.
func (a openName) open(flags int) (int, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(a.dir, a.name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	return fd, pathError("open", a.path, err)
}

// stat returns the status of the name.
func (a openName) stat() (unix.Stat_t, error) {
	var is unix.Stat_t
	_, err := retry(func() (int, error) {
		return 0, unix.Fstatat(a.dir, a.name, &is, unix.AT_SYMLINK_NOFOLLOW)
	})
	return is, pathError("stat", a.path, err)
}

// create creates an empty file. Other users may read this file only if they may read the final file. create replaces
// the temporary file of an earlier write.
func (a openName) create(mode uint32) (fd int, err error) {
	return fd, a.replaceExisting(func() error {
		fd, err = a.createOnly(mode)
		return err
	})
}

// createOnly is create for a name that does not exist.
func (a openName) createOnly(mode uint32) (fd int, err error) {
	if mode &= 0o777; mode&0o004 == 0 {
		mode = 0o600
	}
	return fd, a.change("create", func() error {
		fd, err = unix.Openat(a.dir, a.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC,
			mode)
		return err
	})
}

// link creates a symlink. link replaces the temporary file of an earlier write.
func (a openName) link(target string) error {
	return a.replaceExisting(func() error {
		return a.change("symlink", func() error { return unix.Symlinkat(target, a.dir, a.name) })
	})
}

// replaceExisting calls try and, if the name exists, removes it and calls try again.
func (a openName) replaceExisting(try func() error) error {
	err := try()
	if !os.IsExist(err) {
		return err
	}
	if err := a.remove(0); err != nil {
		return err
	}
	return try()
}

func (a openName) mkdir(mode uint32) error {
	return a.change("mkdir", func() error { return unix.Mkdirat(a.dir, a.name, mode) })
}

// remove removes the name. The flag is AT_REMOVEDIR for a directory.
func (a openName) remove(flag int) error {
	return a.change("unlink", func() error { return unix.Unlinkat(a.dir, a.name, flag) })
}

func (a openName) rename(to openName) error {
	return to.change("rename", func() error { return unix.Renameat(a.dir, a.name, to.dir, to.name) })
}

// writeContents writes the contents of a new file.
func (a openName) writeContents(fd int, contents []byte) error {
	if len(contents) == 0 {
		return nil
	}
	return a.change("write", func() error {
		for len(contents) > 0 {
			n, err := retry(func() (int, error) { return unix.Write(fd, contents) })
			if err != nil {
				return err
			}
			contents = contents[n:]
		}
		return nil
	})
}

// sync makes an open file or directory durable.
func (a openName) sync(fd int) error {
	return a.change("fsync", func() error {
		if err := unix.Fsync(fd); err != nil &&
			err != unix.EINVAL { //nolint:errorlint // the file system does not support it
			return err
		}
		return nil
	})
}
