package linux

import (
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// mayRead tells whether the contents of a file may go elsewhere: who controls a directory may have put another user's file into it
// as a hard link, and would read it in what the daemon makes of it.
func mayRead(a at, is unix.Stat_t) error {
	if a.root.privileged && a.shared && is.Nlink > 1 && (a.holder <= 0 || int(is.Uid) != a.holder) {
		return refuse(a, fmt.Sprintf("what is there is a hard link to a file of uid %d", is.Uid))
	}
	return nil
}

// mayLink tells whether what is open may get a name in another user's directory: who controls the one that it is in may have put
// another file there, or a link that everybody else follows.
func mayLink(a at, fd int, to at) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return pathError("stat", a.path, err)
	}
	if !a.root.privileged || !a.shared || a.holder > 0 && a.holder == to.holder {
		return nil
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG || int(is.Uid) != a.holder || a.holder <= 0 && is.Nlink > 1 {
		return refuse(a, "a hard link may only be made to a regular file of that user")
	}
	return nil
}

// mayTake tells whether a directory may get an owner: below a user's directory it is not taken from a third user.
func mayTake(a at, fd int, want host.Entry) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return pathError("stat", a.path, err)
	}
	if owner := int(is.Uid); a.root.privileged && a.shared && owner != 0 && owner != a.holder && owner != want.Owner.UID {
		return refuse(a, fmt.Sprintf("uid %d owns what is there", owner))
	}
	return nil
}

// chownLink gives a new link its owner. It holds the link, because who controls the directory could put something else there.
func chownLink(a at, want host.Entry) error {
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
		return refuse(a, "it was exchanged while the daemon wrote it")
	}
	return a.change("chown", func() error { return unix.Fchownat(fd, "", want.Owner.UID, want.Owner.GID, unix.AT_EMPTY_PATH) })
}

// refuse is the error about something in a directory that others than root control.
func refuse(a at, why string) error {
	who := fmt.Sprintf("uid %d controls", a.holder)
	if a.holder <= 0 {
		who = "several users can change"
	}
	return &host.UnsafePathError{
		Path: a.path, Component: a.path, UID: a.holder, Why: fmt.Sprintf("%s %s, and %s", who, path.Dir(a.path), why),
		Fix: fmt.Sprintf("look at %s on the node and remove it, or give its directory to root", a.path),
	}
}
