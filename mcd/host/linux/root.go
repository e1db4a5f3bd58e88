package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/linux/beneath"
)

// maxHops is how many links may lead from one unit file to another, as in the kernel.
const maxHops = 40

// Root is the file system of a machine, below a directory. It implements host.Files and host.Disk. Links within it are
// resolved as the machine itself would, absolute ones too, so that none leads out.
type Root struct {
	*disk
	// lock is held while it is open; nil without one.
	lock *os.File
}

// tree is what can be seen of it, and where changes are made.
type tree struct {
	// below opens its directories.
	below *beneath.Tree
	// privileged: owners can be set. self is who owns what is made.
	privileged bool
	self       host.Owner
	// most is how many bytes a file may have whose contents are looked at.
	most int64
	// trap is called before every system call that changes something; see Trap.
	trap func(call, path string) error
}

// disk is a tree with what has to be known of changes before they are durable.
type disk struct {
	*tree
	// batching: changes wait for a Flush.
	batching bool
	// changed is what the next Flush has to make durable.
	changed changes
	// kept is what the store holds.
	kept *pack
}

// OpenRoot opens the directory, which must exist. Without privileges all owners count as root's.
func OpenRoot(dir string) (*Root, error) {
	below, err := beneath.Open(dir)
	if err != nil {
		return nil, err
	}
	r := &Root{disk: &disk{tree: &tree{below: below, privileged: os.Geteuid() == 0, most: most}}}
	if r.privileged {
		r.self = host.Owner{UID: os.Geteuid(), GID: os.Getegid()}
	}
	return r, nil
}

// Close releases the directory and the lock.
func (r *Root) Close() error {
	bad := r.below.Close()
	if r.lock != nil {
		bad = errors.Join(r.lock.Close(), bad)
	}
	return bad
}

// Trap has a function called before every system call that changes something below the root, with the call's name and
// the machine's path; its error takes the place of the call. It is how tests kill a process in the middle of a step, and
// how they fill, break and freeze a disk.
func (r *Root) Trap(before func(call, path string) error) { r.trap = before }

// open opens what is at a path. A link there is not followed.
func (t *tree) open(p string, flags int) (int, error) {
	a, err := t.at(p)
	if err != nil {
		return -1, err
	}
	defer a.close()
	return a.open(flags)
}

// again repeats a system call that a signal interrupted, or that met somebody else's rename.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR && err != unix.EAGAIN { //nolint:errorlint // the kernel's bare numbers
			return n, err
		}
	}
}

// pathError says which path an error of the kernel is about; nil stays nil.
func pathError(call, p string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: call, Path: p, Err: err}
}

// clean refuses what no path of a machine looks like.
func clean(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%q is not an absolute, clean path", p)
	}
	return nil
}

// gone tells errors that mean: nothing is there. A file in the way to a path means that as well.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// entry is what the kernel says of something, without its contents or target.
func (t *tree) entry(is unix.Stat_t) host.Entry {
	e := host.Entry{Kind: host.Other, Mode: is.Mode & 0o7777}
	if t.privileged {
		e.Owner = host.Owner{UID: int(is.Uid), GID: int(is.Gid)}
	}
	switch is.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Kind = host.File
	case unix.S_IFDIR:
		e.Kind = host.Dir
	case unix.S_IFLNK:
		e.Kind, e.Mode = host.Link, 0
	}
	return e
}
