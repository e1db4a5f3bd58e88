package files

import (
	"errors"

	"golang.org/x/sys/unix"
)

// hardLink creates a hard link to the target. hardLink replaces an existing file with the name.
func hardLink(r *Root, p, target string) error {
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
		if err := checkLink(from, fd, tmp); err != nil {
			return false, err
		}
		return false, tmp.replaceExisting(func() error {
			return tmp.change("link", func() error { return linkTo(from, fd, tmp) })
		})
	})
}

// linkTo creates a hard link to an open file. Kernels before 6.10 require a capability to link a file by its
// descriptor. Without it, linkTo uses the name by which the file was opened, if only root can change that name.
func linkTo(a openName, fd int, to openName) error {
	err := unix.Linkat(fd, "", to.dir, to.name, unix.AT_EMPTY_PATH)
	if !a.shared && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM)) {
		err = unix.Linkat(a.dir, a.name, to.dir, to.name, 0)
	}
	return err
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
