package linux

import (
	"errors"

	"golang.org/x/sys/unix"
)

// hardLink gives what is at the target a further name, in place of what has that name now.
func (r *Root) hardLink(p, target string) error {
	from, err := r.at(target)
	if err != nil {
		return err
	}
	defer from.close()
	if same, err := r.Same(p, target); err != nil || same {
		return err // a rename among the names of one file does nothing, and would leave the temporary one
	}
	fd, err := from.open(unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only a place
	return r.swap(p, r.batching, func(tmp, _ at) (placed bool, _ error) {
		if err := mayLink(from, fd, tmp); err != nil {
			return false, err
		}
		return false, tmp.anew(func() error { return tmp.change("link", func() error { return linkTo(from, fd, tmp) }) })
	})
}

// linkTo gives what is open a further name. Kernels before 6.10 want a right for that which not everybody has; the name that it
// was opened by is used where only root can change it.
func linkTo(a at, fd int, to at) error {
	err := unix.Linkat(fd, "", to.dir, to.name, unix.AT_EMPTY_PATH)
	if !a.shared && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM)) {
		err = unix.Linkat(a.dir, a.name, to.dir, to.name, 0)
	}
	return err
}

// Same tells whether two paths are names of one file.
func (r *Root) Same(a, b string) (bool, error) {
	var found [2]unix.Stat_t
	for i, p := range []string{a, b} {
		place, err := r.at(p)
		if err == nil {
			found[i], err = place.stat()
			place.close()
		}
		if gone(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return found[0].Ino == found[1].Ino && found[0].Dev == found[1].Dev, nil
}
