package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// temporary is the name under which a path's new content waits for its rename. It is the same each time, so that a crash
// leaves at most one behind, and the next write takes it over.
func temporary(at string) string {
	dir, base := path.Split(at)
	if len(base) > 200 {
		base = base[:200] // a name has at most 255 bytes
	}
	return dir + "." + base + host.NewSuffix
}

// Write implements host.Files: a new file beside the old one, synced, renamed over it, and the directory synced.
func (r *Root) Write(p string, want host.Entry, contents []byte) error {
	at, err := r.resolve(p)
	if err != nil {
		return err
	}
	return r.swap(at, func(tmp string) error {
		f, err := r.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // closed and judged below; this is for early returns
		if _, err := f.Write(contents); err != nil {
			return err
		}
		if err := r.own(f.Chown, want.Owner); err != nil {
			return err
		}
		if err := f.Chmod(modeOf(want.Mode)); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		return f.Close()
	})
}

// Link implements host.Files.
func (r *Root) Link(p string, want host.Entry) error {
	at, err := r.resolve(p)
	if err != nil {
		return err
	}
	return r.swap(at, func(tmp string) error {
		if err := r.root.Symlink(want.Target, tmp); err != nil {
			return err
		}
		return r.own(func(uid, gid int) error { return r.root.Lchown(tmp, uid, gid) }, want.Owner)
	})
}

// swap makes something under a temporary name, then puts it in place.
func (r *Root) swap(at string, create func(tmp string) error) error {
	tmp := temporary(at)
	if err := r.root.Remove(tmp); err != nil && !gone(err) {
		return fmt.Errorf("removing what an earlier write left: %w", err)
	}
	err := create(tmp)
	if err == nil {
		err = r.root.Rename(tmp, at)
	}
	if err != nil {
		if left := r.root.Remove(tmp); left != nil && !gone(left) {
			return errors.Join(err, left)
		}
		return err
	}
	return r.syncDir(path.Dir(at))
}

// Mkdir implements host.Files.
func (r *Root) Mkdir(p string, want host.Entry) error {
	at, err := r.resolve(p)
	if err != nil {
		return err
	}
	if err := r.root.Mkdir(at, 0o700); err != nil {
		info, statErr := r.root.Lstat(at)
		if !errors.Is(err, fs.ErrExist) || statErr != nil || !info.IsDir() {
			return err
		}
	}
	if err := r.own(func(uid, gid int) error { return r.root.Lchown(at, uid, gid) }, want.Owner); err != nil {
		return err
	}
	if err := r.root.Chmod(at, modeOf(want.Mode)); err != nil {
		return err
	}
	if err := r.syncDir(at); err != nil { // its mode and owner
		return err
	}
	return r.syncDir(path.Dir(at))
}

// Remove implements host.Files.
func (r *Root) Remove(p string) error {
	at, err := r.resolve(p)
	if err == nil {
		err = r.root.Remove(at)
	}
	switch {
	case err == nil:
		return r.syncDir(path.Dir(at))
	case gone(err):
		return nil
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("%s: %w", p, host.ErrNotEmpty)
	}
	return err
}

// own sets an owner where that can be done.
func (r *Root) own(chown func(uid, gid int) error, o host.Owner) error {
	if !r.privileged {
		return nil
	}
	return chown(o.UID, o.GID)
}

func (r *Root) syncDir(at string) error {
	d, err := r.root.Open(at)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // only read
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("syncing %s: %w", at, err)
	}
	return nil
}

// modeOf turns permission bits into Go's.
func modeOf(bits uint32) fs.FileMode {
	mode := fs.FileMode(bits & 0o777)
	for _, special := range []struct {
		bit  uint32
		mode fs.FileMode
	}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}} {
		if bits&special.bit != 0 {
			mode |= special.mode
		}
	}
	return mode
}
