package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// temporary is the name under which something new waits for its rename, beside the name that it will have. It is the
// same each time, so that a crash leaves at most one behind, and the next write takes it over.
func temporary(name string) string {
	if len(name) > 200 {
		name = name[:200] // a name has at most 255 bytes
	}
	return "." + name + host.NewSuffix
}

// Write implements host.Files: a new file beside the old one, renamed over it. What an administrator or a policy has
// attached to the old one is attached to the new one too.
func (r *Root) Write(p string, want host.Entry, contents []byte) error {
	return r.write(p, want, contents, r.batching)
}

// neverEmpty are files that have all their contents, also after a power cut in a batch: nobody could log in else.
var neverEmpty = []string{host.PasswdPath, host.GroupPath, host.ShadowPath, osPath, storePath}

// write may leave it to the next Flush to make the file durable.
func (d *disk) write(p string, want host.Entry, contents []byte, later bool) error {
	if made, err := d.writeEmpty(p, want, contents, later); made || err != nil {
		return err
	}
	return d.swap(p, later, func(tmp, to at) (placed bool, _ error) {
		fd, err := tmp.create(want.Mode)
		if err != nil {
			return false, err
		}
		defer unix.Close(fd) //nolint:errcheck // it is synced before anybody relies on it
		if err := tmp.fill(fd, contents); err != nil {
			return false, err
		}
		if err := tmp.dress(fd, want); err != nil {
			return false, err
		}
		later := later && !slices.Contains(neverEmpty, p)
		if later && d.unlabelled(p) {
			if placed, err := renameNew(tmp, to); placed || err != nil {
				return placed, err
			}
		}
		label, err := d.labelFor(to, want.Owner)
		if err != nil {
			return false, err
		}
		if err := attach(tmp, fd, label); err != nil || later {
			return false, err
		}
		return false, tmp.sync(fd)
	})
}

// writeEmpty makes an empty file where nothing is: it is whole at once, if the kernel gives it mode and owner.
func (d *disk) writeEmpty(p string, want host.Entry, contents []byte, later bool) (made bool, err error) {
	if len(contents) > 0 || !later || want.Owner != d.self || !d.unlabelled(p) {
		return false, nil
	}
	to, err := d.at(p)
	if err != nil {
		return false, err
	}
	defer to.close()
	fd, err := to.createOnly(want.Mode)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is in it
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil || !d.dressed(is, want) {
		return false, errors.Join(pathError("stat", p, err), to.remove(0))
	}
	return true, d.happened(to, later)
}

// dressed tells that something has owner and mode.
func (t *tree) dressed(is unix.Stat_t, want host.Entry) bool {
	return is.Mode&0o7777 == want.Mode&0o7777 && (!t.privileged || is.Uid == uint32(want.Owner.UID) && is.Gid == uint32(want.Owner.GID)) //nolint:gosec // owners fit
}

// dress gives something its owner and mode, in this order: a new owner takes special bits away.
func (a at) dress(fd int, want host.Entry) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil || a.root.dressed(is, want) {
		return pathError("stat", a.path, err)
	}
	if a.root.privileged {
		if err := a.change("chown", func() error { return unix.Fchown(fd, want.Owner.UID, want.Owner.GID) }); err != nil {
			return err
		}
	}
	return a.change("chmod", func() error { return unix.Fchmod(fd, want.Mode&0o7777) })
}

// Link implements host.Files.
func (r *Root) Link(p string, want host.Entry) error {
	if want.Kind == host.Hard {
		return r.hardLink(p, want.Target)
	}
	return r.swap(p, r.batching, func(tmp, _ at) (placed bool, _ error) {
		if err := tmp.link(want.Target); err != nil || !r.privileged {
			return false, err
		}
		return false, chownLink(tmp, want)
	})
}

// swap makes something under a temporary name, then puts it in place, unless that is done already.
func (d *disk) swap(p string, later bool, create func(tmp, to at) (placed bool, _ error)) error {
	to, err := d.at(p)
	if err != nil {
		return err
	}
	defer to.close()
	tmp := to.beside(temporary(to.name))
	placed, err := create(tmp, to)
	if err == nil && !placed {
		err = tmp.rename(to)
	}
	if err == nil {
		return d.happened(to, later)
	}
	if left := tmp.remove(0); left != nil && !gone(left) {
		return errors.Join(err, left)
	}
	return err
}

// happened makes a change of a name in its directory durable, now or with the next Flush.
func (d *disk) happened(a at, later bool) error {
	if later {
		d.changed.add(a.path)
		return nil
	}
	a.name, a.path = ".", path.Dir(a.path)
	return opened(a, func(a at, fd int) error { return a.sync(fd) })
}

// Mkdir implements host.Files.
func (r *Root) Mkdir(p string, want host.Entry) error {
	a, err := r.at(p)
	if err != nil {
		return err
	}
	defer a.close()
	mode := uint32(0o700)
	if want.Owner == r.self && want.Mode&0o005 == 0o005 { // as for files: what others may see in the end, they may see now
		mode = want.Mode & 0o777
	}
	if err := a.mkdir(mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fd, err := a.open(unix.O_RDONLY | unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrPermission) && !r.privileged { // a directory of one's own that one may not list
		if err := a.change("chmod", func() error { return unix.Fchmodat(a.dir, a.name, want.Mode&0o7777, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
			return err
		}
		return r.happened(a, r.batching)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only a place
	if err := mayTake(a, fd, want); err != nil {
		return err
	}
	if err := a.dress(fd, want); err != nil {
		return err
	}
	if !r.batching {
		if err := a.sync(fd); err != nil {
			return err
		}
	}
	return r.happened(a, r.batching)
}

// Remove implements host.Files.
func (r *Root) Remove(p string) error { return r.remove(p, r.batching) }

func (d *disk) remove(p string, later bool) error {
	a, err := d.at(p)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer a.close()
	err = a.remove(0)
	if errors.Is(err, syscall.EISDIR) {
		err = a.remove(unix.AT_REMOVEDIR)
	}
	switch {
	case err == nil:
		return d.happened(a, later)
	case gone(err):
		return nil
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("%s: %w", p, host.ErrNotEmpty)
	}
	return err
}
