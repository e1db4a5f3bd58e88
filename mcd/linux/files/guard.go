package files

import (
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// checkRead reports whether the daemon may copy the contents of a file. A user who controls the directory may have
// created a hard link to a file of another user, and could then read its contents in the copy.
func checkRead(a openName, is unix.Stat_t) error {
	if a.root.privileged && a.shared && is.Nlink > 1 && (a.holder <= 0 || int(is.Uid) != a.holder) {
		return unsafeError(a, fmt.Sprintf("what is there is a hard link to a file of uid %d", is.Uid))
	}
	return nil
}

// checkLink reports whether an open file may get a name in a directory of another user. The user who controls the
// file's own directory may have replaced the file with another file or a link.
func checkLink(a openName, fd int, to openName) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return pathError("stat", a.path, err)
	}
	if !a.root.privileged || !a.shared || a.holder > 0 && a.holder == to.holder {
		return nil
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG || int(is.Uid) != a.holder || a.holder <= 0 && is.Nlink > 1 {
		return unsafeError(a, "a hard link may only lead to a regular file of that user")
	}
	return nil
}

// checkChown reports whether the owner of a directory may change. Below a user's directory, the daemon does not change
// the owner of a directory of a third user.
func checkChown(a openName, fd int, want host.Entry) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return pathError("stat", a.path, err)
	}
	if owner := int(is.Uid); a.root.privileged && a.shared && owner != 0 && owner != a.holder &&
		owner != want.Owner.UID {
		return unsafeError(a, fmt.Sprintf("uid %d owns what is there", owner))
	}
	return nil
}

// chownLink sets the owner of a new link. chownLink opens the link, because a user who controls the directory could
// replace it.
func chownLink(a openName, want host.Entry) error {
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
		return unsafeError(a, "it was exchanged while the daemon wrote it")
	}
	return a.change("chown", func() error {
		return unix.Fchownat(fd, "", want.Owner.UID, want.Owner.GID, unix.AT_EMPTY_PATH)
	})
}

// unsafeError returns the error about a path in a directory that other users than root control.
func unsafeError(a openName, why string) error {
	who := fmt.Sprintf("uid %d controls", a.holder)
	if a.holder <= 0 {
		who = "several users can change"
	}
	return &host.UnsafePathError{
		Path: a.path, Component: a.path, UID: a.holder, Why: fmt.Sprintf("%s %s, and %s", who, path.Dir(a.path), why),
		Fix: fmt.Sprintf("look at %s on the node and remove it, or give its directory to root", a.path),
	}
}
