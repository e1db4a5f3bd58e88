package linux

import (
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
	return r.swap(p, r.batching, func(tmp, _ at) (placed bool, _ error) {
		return false, tmp.anew(func() error {
			return tmp.change("link", func() error { return unix.Linkat(from.dir, from.name, tmp.dir, tmp.name, 0) })
		})
	})
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
