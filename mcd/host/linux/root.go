package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// maxHops is how many links may stand in the way to one path, as in the kernel.
const maxHops = 40

// Root is the file system of a machine, below a directory. It implements host.Files. Links within it are resolved as the
// machine itself would, absolute ones too, so that none leads out.
type Root struct {
	root *os.Root
	// owners can be set.
	privileged bool
	// lock is held while it is open; nil without one.
	lock *os.File
}

// OpenRoot opens the directory, which must exist. Without privileges all owners count as root's.
func OpenRoot(dir string) (*Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the machine's root: %w", err)
	}
	return &Root{root: root, privileged: os.Geteuid() == 0}, nil
}

// Close releases the directory and the lock.
func (r *Root) Close() error {
	if r.lock != nil {
		return errors.Join(r.lock.Close(), r.root.Close())
	}
	return r.root.Close()
}

// resolve turns a machine's path into one relative to the root, with no link in the way to its last element.
func (r *Root) resolve(p string) (string, error) {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return "", fmt.Errorf("%q is not an absolute, clean path", p)
	}
	done, todo := "/", strings.Split(strings.TrimPrefix(p, "/"), "/")
	for hops := 0; len(todo) > 1; {
		next := path.Join(done, todo[0])
		todo = todo[1:]
		info, err := r.root.Lstat(relative(next))
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if hops++; hops > maxHops {
			return "", fmt.Errorf("%s: %w", p, syscall.ELOOP)
		}
		to, err := r.root.Readlink(relative(next))
		if err != nil {
			return "", err
		}
		if !path.IsAbs(to) {
			to = path.Join(done, to)
		}
		done, todo = "/", append(strings.Split(strings.TrimPrefix(path.Clean(to), "/"), "/"), todo...)
	}
	return relative(path.Join(done, todo[0])), nil
}

func relative(p string) string {
	if p == "/" {
		return "."
	}
	return strings.TrimPrefix(p, "/")
}

// gone tells errors that mean: nothing is there. A file in the way to a path means that as well.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// Stat implements host.Files.
func (r *Root) Stat(p string) (host.Entry, error) {
	at, err := r.resolve(p)
	if err == nil {
		var info fs.FileInfo
		if info, err = r.root.Lstat(at); err == nil {
			return r.entry(at, info)
		}
	}
	if gone(err) {
		return host.Entry{}, nil
	}
	return host.Entry{}, err
}

func (r *Root) entry(at string, info fs.FileInfo) (e host.Entry, err error) {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		e.Owner = host.Owner{UID: int(sys.Uid), GID: int(sys.Gid)}
		e.Mode = sys.Mode & 0o7777
	}
	if !r.privileged {
		e.Owner = host.Owner{}
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		e.Kind = host.File
		var contents []byte
		if contents, err = r.root.ReadFile(at); err == nil {
			e.Digest = host.DigestOf(contents)
		}
	case mode.IsDir():
		e.Kind = host.Dir
	case mode&fs.ModeSymlink != 0:
		e.Kind, e.Mode = host.Link, 0
		e.Target, err = r.root.Readlink(at)
	default:
		e.Kind = host.Other
	}
	return e, err
}

// Read implements host.Files.
func (r *Root) Read(p string) ([]byte, error) {
	at, err := r.resolve(p)
	if err != nil {
		return nil, err
	}
	info, err := r.root.Lstat(at)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", p)
	}
	return r.root.ReadFile(at)
}
