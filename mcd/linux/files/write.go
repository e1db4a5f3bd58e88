package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Write implements host.Files. Write writes a temporary file and renames it. The new file gets the SELinux label and
// the user attributes of the old file.
func (r *Root) Write(p string, want host.Entry, contents []byte) error {
	return r.write(p, want, contents, r.batching)
}

// write writes a file. If the parameter later is true, the next Flush makes the file durable.
func (d *disk) write(p string, want host.Entry, contents []byte, later bool) error {
	if made, err := d.writeEmpty(p, want, contents, later); made || err != nil {
		return err
	}
	return d.writeWith(p, newFile{want, later},
		func(tmp openName, fd int) error { return tmp.writeContents(fd, contents) })
}

// neverEmpty are files that are complete even after a power cut in a batch. If one of these files were empty, users
// could not log in.
var neverEmpty = []string{host.PasswdPath, host.GroupPath, host.ShadowPath, SimulatedOSPath, storePath}

// writeEmpty creates an empty file at an unused path without a temporary file, if the kernel sets the right mode and
// owner.
func (d *disk) writeEmpty(p string, want host.Entry, contents []byte, later bool) (made bool, err error) {
	if len(contents) > 0 || !later || want.Owner != d.self || !d.unlabelled(p) || d.originalFor(p, want) != nil {
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
	if err := unix.Fstat(fd, &is); err != nil || !d.hasOwnerAndMode(is, want) {
		return false, errors.Join(pathError("stat", p, err), to.remove(0))
	}
	d.noteInherited(p)
	return true, d.nameChanged(to, later)
}

// writeWith writes a file whose contents the function fill writes into the temporary file.
func (d *disk) writeWith(p string, f newFile, fill func(tmp openName, fd int) error) error {
	want, later := f.want, f.later
	return d.swap(p, later, func(tmp, to openName) (placed bool, _ error) {
		fd, err := tmp.create(want.Mode)
		if err != nil {
			return false, err
		}
		defer unix.Close(fd) //nolint:errcheck // it is synced before anybody relies on it
		if err := fill(tmp, fd); err != nil {
			return false, err
		}
		if err := tmp.setOwnerAndMode(fd, want); err != nil {
			return false, err
		}
		later := later && !slices.Contains(neverEmpty, p)
		if later && d.unlabelled(p) && d.originalFor(p, want) == nil {
			if placed, err := tmp.renameNew(to); placed || err != nil {
				d.noteInherited(p)
				return placed, err
			}
		}
		label, err := d.labelFor(to, want.Owner)
		if err != nil {
			return false, err
		}
		if err := tmp.attach(fd, label); err != nil {
			return false, err
		}
		was := d.originalFor(p, want)
		if was != nil {
			if err := was.restore(tmp, fd); err != nil {
				return false, err
			}
		}
		if label[securityLabel] == nil && (was == nil || was.Attributes[securityLabel] == nil) {
			d.noteInherited(p)
		}
		if later {
			return false, nil
		}
		return false, tmp.sync(fd)
	})
}

// newFile is a file to write. If later is true, the next Flush makes it durable.
type newFile struct {
	want  host.Entry
	later bool
}

// swap creates a temporary file and renames it, unless create has placed the file already.
func (d *disk) swap(p string, later bool, create func(tmp, to openName) (placed bool, _ error)) error {
	to, err := d.at(p)
	if err != nil {
		return err
	}
	defer to.close()
	tmp := to.sibling(temporary(to.name))
	placed, err := create(tmp, to)
	if err == nil && !placed {
		err = tmp.rename(to)
	}
	if err == nil {
		return d.nameChanged(to, later)
	}
	if left := tmp.remove(0); left != nil && !IsAbsent(left) {
		return errors.Join(err, left)
	}
	return err
}

// temporary returns the name of the temporary file that is renamed to a name in the same directory. The temporary name
// is always the same, so that a crash leaves at most one temporary file, which the next write replaces.
func temporary(name string) string {
	if len(name) > 200 {
		name = name[:200] // The name is cut because a name has at most 255 bytes.
	}
	return "." + name + host.NewSuffix
}

// nameChanged makes a change of a directory durable, at once or with the next Flush.
func (d *disk) nameChanged(a openName, later bool) error {
	if later {
		d.changed.add(a.path)
		return nil
	}
	a.name, a.path = ".", path.Dir(a.path)
	return a.openedDir(func(a openName, fd int) error { return a.sync(fd) })
}

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

// setOwnerAndMode sets the owner, then the mode: the kernel clears special bits when the owner changes.
func (a openName) setOwnerAndMode(fd int, want host.Entry) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil || a.root.hasOwnerAndMode(is, want) {
		return pathError("stat", a.path, err)
	}
	if a.root.privileged {
		if err := a.change("chown", func() error {
			return unix.Fchown(fd, want.Owner.UID, want.Owner.GID)
		}); err != nil {
			return err
		}
	}
	return a.change("chmod", func() error { return unix.Fchmod(fd, want.Mode&0o7777) })
}

// hasOwnerAndMode reports whether a file has the wanted owner and mode.
func (t *tree) hasOwnerAndMode(is unix.Stat_t, want host.Entry) bool {
	return is.Mode&0o7777 == want.Mode&0o7777 && (!t.privileged || is.Uid == uint32(want.Owner.UID) &&
		is.Gid == uint32(want.Owner.GID)) //nolint:gosec // owners fit
}

// renameNew renames to a name that does not exist. renameNew returns false if the name exists, or if the file system
// does not support this.
func (a openName) renameNew(to openName) (bool, error) {
	err := to.change("rename", func() error {
		return unix.Renameat2(a.dir, a.name, to.dir, to.name, unix.RENAME_NOREPLACE)
	})
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return false, nil
	}
	return err == nil, err
}

func (a openName) rename(to openName) error {
	return to.change("rename", func() error { return unix.Renameat(a.dir, a.name, to.dir, to.name) })
}

// remove removes the name. The flag is AT_REMOVEDIR for a directory.
func (a openName) remove(flag int) error {
	return a.change("unlink", func() error { return unix.Unlinkat(a.dir, a.name, flag) })
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

// Link implements host.Files.
func (r *Root) Link(p string, want host.Entry) error {
	if want.Kind == host.Hard {
		return r.hardLink(p, want.Target)
	}
	r.noteInherited(p)
	return r.swap(p, r.batching, func(tmp, _ openName) (placed bool, _ error) {
		if err := tmp.link(want.Target); err != nil || !r.privileged {
			return false, err
		}
		return false, tmp.chownLink(want)
	})
}

// hardLink creates a hard link to the target. hardLink replaces an existing file with the name.
func (r *Root) hardLink(p, target string) error {
	from, err := r.at(target)
	if err != nil {
		return err
	}
	defer from.close()
	if same, err := r.Same(p, target); err != nil || same {
		// The names already belong to one file. A rename between two names of one file does nothing, and would leave
		// the temporary name.
		return err
	}
	fd, err := from.open(unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only a place
	return r.swap(p, r.batching, func(tmp, _ openName) (placed bool, _ error) {
		if err := from.checkLink(fd, tmp); err != nil {
			return false, err
		}
		return false, tmp.replaceExisting(func() error {
			return tmp.change("link", func() error { return from.linkTo(fd, tmp) })
		})
	})
}

// linkTo creates a hard link to an open file. Kernels before 6.10 require a capability to link a file by its
// descriptor. Without it, linkTo uses the name by which the file was opened, if only root can change that name.
func (a openName) linkTo(fd int, to openName) error {
	err := unix.Linkat(fd, "", to.dir, to.name, unix.AT_EMPTY_PATH)
	if !a.shared && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM)) {
		err = unix.Linkat(a.dir, a.name, to.dir, to.name, 0)
	}
	return err
}

// checkLink reports whether an open file may get a name in a directory of another user. The user who controls the
// file's own directory may have replaced the file with another file or a link.
func (a openName) checkLink(fd int, to openName) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return pathError("stat", a.path, err)
	}
	if !a.root.privileged || !a.shared || a.holder > 0 && a.holder == to.holder {
		return nil
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG || int(is.Uid) != a.holder || a.holder <= 0 && is.Nlink > 1 {
		return a.unsafe("a hard link may only lead to a regular file of that user")
	}
	return nil
}

// chownLink sets the owner of a new link. chownLink opens the link, because a user who controls the directory could
// replace it.
func (a openName) chownLink(want host.Entry) error {
	fd, err := a.open(unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only a place
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return pathError("stat", a.path, err)
	}
	if is.Mode&unix.S_IFMT != unix.S_IFLNK || is.Nlink != 1 {
		return a.unsafe("it was exchanged while the daemon wrote it")
	}
	return a.change("chown", func() error {
		return unix.Fchownat(fd, "", want.Owner.UID, want.Owner.GID, unix.AT_EMPTY_PATH)
	})
}

// Mkdir implements host.Files.
func (d *disk) Mkdir(p string, want host.Entry) error {
	a, err := d.at(p)
	if err != nil {
		return err
	}
	defer a.close()
	mode := uint32(0o700)
	// The mode is safe, because other users may read the final directory.
	if want.Owner == d.self && want.Mode&0o005 == 0o005 {
		mode = want.Mode & 0o777
	}
	switch err := a.mkdir(mode); {
	case err == nil:
		d.noteInherited(p)
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	fd, err := a.open(unix.O_RDONLY | unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrPermission) && !d.privileged { // The owner of the directory may not list it.
		if err := a.change("chmod", func() error {
			return unix.Fchmodat(a.dir, a.name, want.Mode&0o7777, unix.AT_SYMLINK_NOFOLLOW)
		}); err != nil {
			return err
		}
		return d.nameChanged(a, d.batching)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only a place
	if err := a.checkChown(fd, want); err != nil {
		return err
	}
	if err := a.setOwnerAndMode(fd, want); err != nil {
		return err
	}
	if !d.batching {
		if err := a.sync(fd); err != nil {
			return err
		}
	}
	return d.nameChanged(a, d.batching)
}

// MkdirAll creates a directory, and the directories above it that do not exist. Only root may read the daemon's state
// directories.
func (d *disk) MkdirAll(dir string) error {
	is, err := d.Stat(dir)
	if err != nil || is.Kind == host.Dir || is.Kind == host.Link {
		return err
	}
	if parent := path.Dir(dir); parent != "/" {
		if err := d.MkdirAll(parent); err != nil {
			return err
		}
	}
	want := host.Entry{Kind: host.Dir, Mode: 0o755}
	if dir == host.StateDir || path.Dir(dir) == host.StateDir {
		want.Mode = 0o700
	}
	return d.Mkdir(dir, want)
}

// makeStateDir creates the daemon's state directory. The directory is durable when makeStateDir returns, because the
// files in it must be durable.
func (d *disk) makeStateDir() error {
	if is, err := d.Stat(host.StateDir); err != nil || is.Kind != host.Absent {
		return err
	}
	if err := d.MkdirAll(host.StateDir); err != nil || !d.batching {
		return err
	}
	for dir := path.Dir(host.StateDir); ; dir = path.Dir(dir) {
		if err := d.syncDir(dir); err != nil || dir == "/" {
			return err
		}
	}
}

// syncDir makes the names in a directory durable.
func (t *tree) syncDir(dir string) error {
	return t.eachIn(dir, func(a openName, fd int) error { return a.sync(fd) })
}

// checkChown reports whether the owner of a directory may change. Below a user's directory, the daemon does not change
// the owner of a directory of a third user.
func (a openName) checkChown(fd int, want host.Entry) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return pathError("stat", a.path, err)
	}
	if owner := int(is.Uid); a.root.privileged && a.shared && owner != 0 && owner != a.holder &&
		owner != want.Owner.UID {
		return a.unsafe(fmt.Sprintf("uid %d owns what is there", owner))
	}
	return nil
}

// Remove implements host.Files.
func (r *Root) Remove(p string) error { return r.remove(p, r.batching) }

func (d *disk) remove(p string, later bool) error {
	a, err := d.at(p)
	if IsAbsent(err) {
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
		return d.nameChanged(a, later)
	case IsAbsent(err):
		return nil
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("%s: %w", p, host.ErrNotEmpty)
	}
	return err
}

// unsafe returns the error about a path in a directory that other users than root control.
func (a openName) unsafe(why string) error {
	who := fmt.Sprintf("uid %d controls", a.holder)
	if a.holder <= 0 {
		who = "several users can change"
	}
	return &host.UnsafePathError{
		Path: a.path, Component: a.path, UID: a.holder, Why: fmt.Sprintf("%s %s, and %s", who, path.Dir(a.path), why),
		Fix: fmt.Sprintf("look at %s on the node and remove it, or give its directory to root", a.path),
	}
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
