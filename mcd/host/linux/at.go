package linux

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// at is where a change is made: a name in a directory that is held open, so that whatever happens to the links in the
// way meanwhile, the change is made there.
type at struct {
	root *tree
	dir  int
	name string
	// path is the machine's, for errors and traps.
	path string
	// holder is the uid of the user below whose directory it is; see beneath.Dir. With shared, others than root can change what
	// has the name.
	holder int
	shared bool
}

// at opens the directory of a path. Close it.
func (t *tree) at(p string) (at, error) {
	if err := clean(p); err != nil {
		return at{}, err
	}
	d, err := t.below.Dir(path.Dir(p))
	if err != nil {
		return at{}, forPath(p, err)
	}
	a := at{root: t, dir: d.FD, name: path.Base(p), path: p, holder: d.Holder, shared: d.Shared}
	if p == "/" {
		a.name = "."
	}
	return a, nil
}

// forPath says of an error about a directory for which path in it the directory was opened.
func forPath(p string, err error) error {
	if bad, ok := err.(*fs.PathError); ok { //nolint:errorlint // it is made by the call before, and has nothing around it
		bad.Path = p
	}
	if bad, ok := err.(*host.UnsafePathError); ok { //nolint:errorlint // as above
		bad.Path = p
	}
	return err
}

func (a at) close() { unix.Close(a.dir) } //nolint:errcheck,gosec // only a place

// beside is another name in the same directory.
func (a at) beside(name string) at {
	a.path, a.name = path.Join(path.Dir(a.path), name), name
	return a
}

// change makes a system call, unless the trap has something else happen.
func (a at) change(call string, do func() error) error {
	if a.root.trap != nil {
		if err := a.root.trap(call, a.path); err != nil {
			return pathError(call, a.path, err)
		}
	}
	_, err := again(func() (int, error) { return 0, do() })
	return pathError(call, a.path, err)
}

// open opens what is there. A link is not followed.
func (a at) open(flags int) (int, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(a.dir, a.name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	return fd, pathError("open", a.path, err)
}

// stat tells what is there.
func (a at) stat() (unix.Stat_t, error) {
	var is unix.Stat_t
	_, err := again(func() (int, error) {
		return 0, unix.Fstatat(a.dir, a.name, &is, unix.AT_SYMLINK_NOFOLLOW)
	})
	return is, pathError("stat", a.path, err)
}

// create makes a new, empty file, which others may read only if they may read it in the end. What an earlier write left
// there goes.
func (a at) create(mode uint32) (fd int, err error) {
	return fd, a.anew(func() error {
		fd, err = a.createOnly(mode)
		return err
	})
}

// createOnly is create where nothing is.
func (a at) createOnly(mode uint32) (fd int, err error) {
	if mode &= 0o777; mode&0o004 == 0 {
		mode = 0o600
	}
	return fd, a.change("create", func() error {
		fd, err = unix.Openat(a.dir, a.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
}

// link makes a symlink. What an earlier write left there goes.
func (a at) link(target string) error {
	return a.anew(func() error {
		return a.change("symlink", func() error { return unix.Symlinkat(target, a.dir, a.name) })
	})
}

// anew makes something, a second time when something was there.
func (a at) anew(try func() error) error {
	err := try()
	if !os.IsExist(err) {
		return err
	}
	if err := a.remove(0); err != nil {
		return err
	}
	return try()
}

func (a at) mkdir(mode uint32) error {
	return a.change("mkdir", func() error { return unix.Mkdirat(a.dir, a.name, mode) })
}

// remove takes a name away; the flag is AT_REMOVEDIR for a directory.
func (a at) remove(flag int) error {
	return a.change("unlink", func() error { return unix.Unlinkat(a.dir, a.name, flag) })
}

func (a at) rename(to at) error {
	return to.change("rename", func() error { return unix.Renameat(a.dir, a.name, to.dir, to.name) })
}

// renameNew is rename where nothing is; it tells whether that was so. A file system that cannot tell is one where
// something is.
func renameNew(a, to at) (bool, error) {
	err := to.change("rename", func() error { return unix.Renameat2(a.dir, a.name, to.dir, to.name, unix.RENAME_NOREPLACE) })
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return false, nil
	}
	return err == nil, err
}

// fill gives a new file its contents.
func (a at) fill(fd int, contents []byte) error {
	if len(contents) == 0 {
		return nil
	}
	return a.change("write", func() error {
		for len(contents) > 0 {
			n, err := again(func() (int, error) { return unix.Write(fd, contents) })
			if err != nil {
				return err
			}
			contents = contents[n:]
		}
		return nil
	})
}

// sync makes something durable that is open.
func (a at) sync(fd int) error {
	return a.change("fsync", func() error {
		if err := unix.Fsync(fd); err != nil && err != unix.EINVAL { //nolint:errorlint // a file system without such a thing
			return err
		}
		return nil
	})
}
