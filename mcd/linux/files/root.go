package files

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/beneath"
	"golang.org/x/sys/unix"
)

// SimulatedOSPath is the path of the file with the OS of a simulated host: the OS that "runs", and the OS of the next
// boot.
const SimulatedOSPath = "/etc/bunsen-simulated-os.json"

// Root is the file system of a machine, below a directory. Root implements host.Files and host.Disk. Root resolves
// links as the machine itself does, relative to this root, so that every link stays below it.
type Root struct {
	*disk
	// locks are the locked files.
	locks []*os.File
}

// tree opens the paths of a machine.
type tree struct {
	// below opens the directories.
	below *beneath.Tree
	// privileged is true if the process can set owners. self is the owner of new files.
	privileged bool
	self       host.Owner
	// maxRead is the size of the largest file that is read, and maxDigest of the largest file that gets a digest.
	maxRead, maxDigest int64
	// trap is the function that Trap sets.
	trap func(call, path string) error
}

// disk is a tree with its changes that are not durable yet.
type disk struct {
	*tree
	// batching is true while changes wait for Flush.
	batching bool
	// changed has the changes that the next Flush makes durable.
	changed changes
	// store is the content of the store; nil until it is read.
	store *storeFile
	// inherited are the paths that were made, and that got the labels of their directories.
	inherited map[string]bool
}

// Inherited returns the paths that were made and that have the labels of their directories, sorted.
func (d *disk) Inherited() []string { return slices.Sorted(maps.Keys(d.inherited)) }

// Labelled forgets paths that were made: they have the labels of the machine's policy now.
func (d *disk) Labelled(paths []string) {
	for _, p := range paths {
		delete(d.inherited, p)
	}
}

// noteInherited notes a path that was made, and that has the label of its directory.
func (d *disk) noteInherited(p string) {
	if d.inherited == nil {
		d.inherited = map[string]bool{}
	}
	d.inherited[p] = true
}

// Open opens the root directory, which must exist. Without privileges, every file counts as owned by root.
func Open(dir string) (*Root, error) {
	below, err := beneath.Open(dir)
	if err != nil {
		return nil, err
	}
	r := &Root{disk: &disk{tree: &tree{
		below: below, privileged: os.Geteuid() == 0, maxRead: maxRead,
		maxDigest: maxDigest,
	}}}
	if r.privileged {
		r.self = host.Owner{UID: os.Geteuid(), GID: os.Getegid()}
	}
	return r, nil
}

// Close closes the directory and ends the locks.
func (r *Root) Close() error {
	bad := r.below.Close()
	for _, l := range r.locks {
		bad = errors.Join(l.Close(), bad)
	}
	return bad
}

// WithoutOpenat2 makes the process open paths as on kernels without openat2. WithoutOpenat2 is for tests.
func (t *tree) WithoutOpenat2() { t.below.WithoutOpenat2() }

// IsPrivileged reports whether the process can set owners.
func (t *tree) IsPrivileged() bool { return t.privileged }

// Trap sets a function that is called before every system call that changes the machine, with the name of the call and
// the path. If the function returns an error, the system call is not made and fails with this error. Tests use it to
// kill a process during a step, and to simulate a disk that is full, broken or slow.
func (t *tree) Trap(before func(call, path string) error) { t.trap = before }

// open opens a path. open does not follow a link at the path itself.
func (t *tree) open(p string, flags int) (int, error) {
	a, err := t.at(p)
	if err != nil {
		return -1, err
	}
	defer a.close()
	return a.open(flags)
}

// retry repeats a system call that a signal or a concurrent rename interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR && err != unix.EAGAIN { //nolint:errorlint // the kernel's bare numbers
			return n, err
		}
	}
}

// pathError adds the path to an error of the kernel. pathError returns nil for nil.
func pathError(call, p string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: call, Path: p, Err: err}
}

// IsAbsent reports whether an error means that a path does not exist. A path below a file does not exist either.
func IsAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// entry returns the entry of a stat result, without contents or target.
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

// Same reports whether two paths are names of one file.
func (r *Root) Same(a, b string) (bool, error) {
	var found [2]unix.Stat_t
	for i, p := range []string{a, b} {
		place, err := r.at(p)
		if err == nil {
			found[i], err = place.stat()
			place.close()
		}
		if IsAbsent(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return found[0].Ino == found[1].Ino && found[0].Dev == found[1].Dev, nil
}

// The locks of a machine, below host.StateDir. A lock ends with Close or with the process.
const (
	// DaemonLock is locked while a daemon serves the machine: two daemons with one journal would undo each other's
	// work.
	DaemonLock = "lock"
	// ServiceLock is locked while the service of the daemon runs, also while the service waits for DaemonLock.
	ServiceLock = "service.lock"
)

// ErrLocked is the error if another process has the lock.
var ErrLocked = errors.New("another machine-config-daemon serves this machine")

// Lock locks DaemonLock, and does not wait. The error wraps ErrLocked if another process has DaemonLock.
func (r *Root) Lock() error {
	err := r.TryLock(DaemonLock)
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf("%w: stop it first", err)
	}
	return err
}

// TryLock locks one of the locks, and does not wait. The error wraps ErrLocked if another process has this lock.
func (r *Root) TryLock(name string) error {
	f, err := r.lockFile(name, syscall.LOCK_EX)
	if err == nil {
		r.locks = append(r.locks, f)
	}
	return err
}

// Locked reports whether another process, or another Root, has a lock.
func (r *Root) Locked(name string) (bool, error) {
	f, err := r.lockFile(name, syscall.LOCK_SH)
	switch {
	case errors.Is(err, ErrLocked):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, f.Close()
}

func (r *Root) lockFile(name string, how int) (*os.File, error) {
	if err := r.makeStateDir(); err != nil {
		return nil, err
	}
	a, err := r.at(host.StateDir + "/" + name)
	if err != nil {
		return nil, fmt.Errorf("locking the machine: %w", err)
	}
	defer a.close()
	fd, err := retry(func() (int, error) {
		return unix.Openat(a.dir, a.name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return nil, fmt.Errorf("locking the machine: %w", pathError("open", a.path, err))
	}
	f := os.NewFile(uintptr(fd), a.path) //nolint:gosec // a descriptor is positive
	err = syscall.Flock(fd, how|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close() //nolint:errcheck,gosec // nothing was written
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("locking %s/%s: %w", host.StateDir, name, ErrLocked)
	}
	return nil, fmt.Errorf("locking %s/%s: %w", host.StateDir, name, err)
}
