package beneath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Tree is the root directory of a machine. Tree resolves links as the machine itself does.
type Tree struct {
	// dir is the descriptor of the directory. name is the path of the directory dir outside the machine.
	dir  int
	name string
	// uid and gid are the user and the group of the process. The package trusts files of this user and group like files
	// of root.
	uid, gid uint32
	// openat2 is true if this kernel can open a whole path and refuse links.
	openat2 bool
	// between is the function that Between sets.
	between func(component string)

	mu sync.Mutex
	// known are directories that only root can change, and whose paths have no links.
	known map[string]identity
}

// identity identifies a directory, independently of its path.
type identity struct{ dev, ino uint64 }

// mostKnown is the maximum size of known.
const mostKnown = 4096

// Open opens the root directory of a machine. The caller closes it.
func Open(dir string) (*Tree, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the machine's root: %w", &fs.PathError{Op: "open", Path: dir, Err: err})
	}
	t := &Tree{dir: fd, name: dir, uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())} //nolint:gosec // ids fit
	probe, err := t.openWhole(".")
	if t.openat2 = err == nil; t.openat2 {
		unix.Close(probe) //nolint:errcheck,gosec // only looked at
	}
	return t, nil
}

// Close releases the directory.
func (t *Tree) Close() error { return unix.Close(t.dir) }

// Name returns the path that was given to Open, which is outside the machine.
func (t *Tree) Name() string { return t.name }

// WithoutOpenat2 makes the tree work as on kernels before 5.6, or in sandboxes without openat2. WithoutOpenat2 is for
// tests.
func (t *Tree) WithoutOpenat2() { t.openat2 = false }

// Between sets a function that is called after each component of a path is opened, with the component's path on the
// machine. Tests use it to change the tree between two steps.
func (t *Tree) Between(do func(component string)) { t.between = do }

// Dir is an open directory.
type Dir struct {
	// FD is the descriptor, opened with O_PATH. The caller closes it.
	FD int
	// Holder is the uid of the user who controls the directory or one above it; 0 if only root can change where the
	// path leads.
	Holder int
	// Shared is true if other users than root can add names to the directory.
	Shared bool
}

// Close releases the descriptor.
func (d Dir) Close() { unix.Close(d.FD) } //nolint:errcheck,gosec // only a place

// Dir opens a directory by the machine's absolute, clean path. The last component may be a link, too. The error is a
// *host.UnsafePathError if the rules of the package forbid the path, and fs.ErrNotExist or ENOTDIR if the path does
// not exist.
func (t *Tree) Dir(p string) (Dir, error) {
	if err := clean(p); err != nil {
		return Dir{}, err
	}
	if t.openat2 && t.between == nil {
		fd, done, err := t.quick(p)
		if done {
			return Dir{FD: fd}, pathError(p, err)
		}
	}
	return t.walk(p)
}

// quick opens a path without links whose directories only root can change. quick checks the directories from the root
// down: after a directory is checked, only root can replace it. The result done is false for all other paths.
func (t *Tree) quick(p string) (fd int, done bool, _ error) {
	rel := strings.TrimPrefix(p, "/")
	if rel == "" {
		fd, err := t.openWhole(".")
		return fd, err == nil, nil
	}
	if fd, same := t.again(p, rel); same {
		return fd, true, nil
	}
	for end := 0; end < len(rel); end++ {
		if next := strings.IndexByte(rel[end:], '/'); next >= 0 {
			end += next
		} else {
			end = len(rel)
		}
		is, err := stat(t.dir, rel[:end])
		switch {
		case errors.Is(err, unix.ENOENT):
			return -1, true, err
		case err != nil, is.Mode&unix.S_IFMT != unix.S_IFDIR, t.owner(is.Uid) != 0, t.writable(is):
			return -1, false, nil
		}
	}
	fd, is, err := t.openTrusted(rel)
	if err != nil {
		return -1, false, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= mostKnown {
		t.known = map[string]identity{}
	}
	t.known[p] = is
	return fd, true, nil
}

// again opens a directory again if it is the same directory that was opened before. again does not check the
// directories above it, because only root can have put this directory at the path.
func (t *Tree) again(p, rel string) (fd int, same bool) {
	t.mu.Lock()
	was, known := t.known[p]
	t.mu.Unlock()
	if !known {
		return -1, false
	}
	fd, is, err := t.openTrusted(rel)
	if err == nil && is != was {
		unix.Close(fd) //nolint:errcheck,gosec // only looked at
	}
	return fd, err == nil && is == was
}

// openTrusted opens a directory if its path has no links and only root can change it.
func (t *Tree) openTrusted(rel string) (fd int, _ identity, err error) {
	if fd, err = t.openWhole(rel); err != nil {
		return -1, identity{}, err
	}
	var is unix.Stat_t
	if err = unix.Fstat(fd, &is); err == nil && (t.owner(is.Uid) != 0 || t.writable(is)) {
		err = unix.EPERM
	}
	if err != nil {
		unix.Close(fd) //nolint:errcheck,gosec // only looked at
		return -1, identity{}, err
	}
	return fd, identity{is.Dev, is.Ino}, nil
}

// openWhole opens a directory if its path has no links.
func (t *Tree) openWhole(rel string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	return again(func() (int, error) { return unix.Openat2(t.dir, rel, &how) })
}

// owner returns a uid, or 0 for a trusted uid.
func (t *Tree) owner(uid uint32) int {
	if uid == t.uid {
		return 0
	}
	return int(uid)
}

// writable reports whether other users than the owner can add names to a directory.
func (t *Tree) writable(is unix.Stat_t) bool {
	return is.Mode&0o002 != 0 || is.Mode&0o020 != 0 && is.Gid != 0 && is.Gid != t.gid
}

// stat returns the status of a name. stat does not follow a link.
func stat(dir int, name string) (is unix.Stat_t, _ error) {
	_, err := again(func() (int, error) { return 0, unix.Fstatat(dir, name, &is, unix.AT_SYMLINK_NOFOLLOW) })
	return is, err
}

// again repeats a system call that a signal or a concurrent rename interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR && err != unix.EAGAIN { //nolint:errorlint // the kernel's bare numbers
			return n, err
		}
	}
}

// pathError adds the path to an error of the kernel. pathError returns nil for nil.
func pathError(p string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "open", Path: p, Err: err}
}

// clean refuses texts that are not an absolute, clean path.
func clean(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%q is not an absolute, clean path", p)
	}
	return nil
}
