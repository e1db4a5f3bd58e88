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

// Tree is a directory that is the root of a machine. Links in it are resolved as the machine itself resolves them.
type Tree struct {
	// dir is the directory; name is its path outside of the machine.
	dir  int
	name string
	// uid and gid of the process; what belongs to them is trusted, as what belongs to root.
	uid, gid uint32
	// openat2: this kernel can open a whole path and refuse links.
	openat2 bool
	// between is called after each component was opened; see Between.
	between func(component string)

	mu sync.Mutex
	// known are directories to which nothing but directories led that only root can change.
	known map[string]identity
}

// identity is what makes a directory itself.
type identity struct{ dev, ino uint64 }

// mostKnown is how many directories are remembered.
const mostKnown = 4096

// Open opens a directory as the root of a machine. Close it when done.
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

// Name is the path of the directory outside of the machine, as it was given to Open.
func (t *Tree) Name() string { return t.name }

// WithoutOpenat2 makes the tree work as on kernels before 5.6 and in sandboxes that hide openat2. It is for tests.
func (t *Tree) WithoutOpenat2() { t.openat2 = false }

// Between has a function called after each component of a path was opened, with the machine's path of that component. It is
// how tests change the tree between two steps.
func (t *Tree) Between(do func(component string)) { t.between = do }

// Dir is an open directory.
type Dir struct {
	// FD is the descriptor, opened with O_PATH. Close it.
	FD int
	// Holder is the uid of the user below whose directory this one is; 0 where only root decides what this path leads to.
	Holder int
	// Shared: others than root can add names to the directory.
	Shared bool
}

// Close releases the descriptor.
func (d Dir) Close() { unix.Close(d.FD) } //nolint:errcheck,gosec // only a place

// Dir opens a directory by the machine's absolute, clean path. The last component may be a link, too. A path that the rules of
// the package forbid is a *host.UnsafePathError; one that is not there is fs.ErrNotExist or ENOTDIR.
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

// quick opens a directory to which nothing but directories lead that only root can change. It looks at them from the top
// down, so that when one is looked at, nobody but root can exchange those above it any more. Done is false for all other
// paths.
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

// again opens a directory that was opened before, if it is the same one. It needs no look at those above it: whatever leads
// there now, it is a directory that only root could choose.
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

// openTrusted opens a directory with no link on the way that only root can change.
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

// openWhole opens a directory with no link on the way.
func (t *Tree) openWhole(rel string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	return again(func() (int, error) { return unix.Openat2(t.dir, rel, &how) })
}

// owner is a uid, or 0 for one that is trusted.
func (t *Tree) owner(uid uint32) int {
	if uid == t.uid {
		return 0
	}
	return int(uid)
}

// writable tells that others than the owner can add names to a directory.
func (t *Tree) writable(is unix.Stat_t) bool {
	return is.Mode&0o002 != 0 || is.Mode&0o020 != 0 && is.Gid != 0 && is.Gid != t.gid
}

// stat tells what is at a name. A link is not followed.
func stat(dir int, name string) (is unix.Stat_t, _ error) {
	_, err := again(func() (int, error) { return 0, unix.Fstatat(dir, name, &is, unix.AT_SYMLINK_NOFOLLOW) })
	return is, err
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
func pathError(p string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "open", Path: p, Err: err}
}

// clean refuses what no path of a machine looks like.
func clean(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%q is not an absolute, clean path", p)
	}
	return nil
}
