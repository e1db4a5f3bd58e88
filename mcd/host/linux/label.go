package linux

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// label is what is attached to a file beside its mode and owner: the label of SELinux, and attributes of people. Mode,
// owner and lists of who may do what are the config's.
type label map[string][]byte

// securityLabel is the name under which the kernel has SELinux' label.
const securityLabel = "security.selinux"

// carried tells attributes that go along with a file.
func (t *tree) carried(name string) bool {
	return strings.HasPrefix(name, "user.") || name == securityLabel && t.privileged
}

// labelOf reads the label of the regular file at a path; of anything else it is nil.
func (t *tree) labelOf(p string) (label, error) {
	a, err := t.at(p)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer a.close()
	l, _, err := labelled(a)
	return l, err
}

// labelled reads what is attached to a file here; ok is false where there is none.
func labelled(a at) (l label, ok bool, _ error) {
	fd, err := a.open(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY)
	switch {
	case gone(err), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO):
		return nil, false, nil
	case err != nil && !a.root.privileged:
		return nil, true, nil // a simulated host's, who may not even read it
	case err != nil:
		return nil, false, err
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	l, err = a.root.labelAt(fd, a.path)
	return l, true, err
}

// labelAt reads what is attached to an open file.
func (t *tree) labelAt(fd int, p string) (l label, _ error) {
	names, err := attribute(func(into []byte) (int, error) { return unix.Flistxattr(fd, into) })
	if err != nil {
		return nil, pathError("listxattr", p, err)
	}
	for name := range strings.SplitSeq(string(bytes.Trim(names, "\x00")), "\x00") {
		if name == "" || !t.carried(name) {
			continue
		}
		value, err := attribute(func(into []byte) (int, error) { return unix.Fgetxattr(fd, name, into) })
		if err != nil {
			return nil, pathError("getxattr", p, err)
		}
		if l == nil {
			l = label{}
		}
		l[name] = value
	}
	return l, nil
}

// attribute reads something of a size that is not known before; nothing where the file system has no such thing.
func attribute(read func([]byte) (int, error)) ([]byte, error) {
	for into := make([]byte, 256); ; into = make([]byte, 4*len(into)) {
		n, err := again(func() (int, error) { return read(into) })
		switch {
		case err == nil:
			return into[:n], nil
		case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENODATA):
			return nil, nil
		case !errors.Is(err, syscall.ERANGE) || len(into) > 1<<20:
			return nil, err
		}
	}
}

// labelFor is what a new file at a place gets: what the file there has; else what was attached to the one that the update
// took away, or put aside, or brings back. Without any the kernel has said already, when it made the file in its directory.
func (d *disk) labelFor(a at) (label, error) {
	if d.kept != nil && d.kept.looked[a.path] {
		return d.kept.Labels[a.path], nil
	}
	l, there, err := labelled(a)
	if there || err != nil {
		return l, err
	}
	kept, err := d.packed()
	if err != nil {
		kept = &pack{} // who needs its contents will say that it is damaged
	}
	if l := kept.label(a.path); l != nil {
		return l, nil
	}
	if was := originalOf(a.path); was != "" {
		return d.labelOf(was)
	}
	return nil, nil
}

// unlabelled tells that a new file gets nothing but what the kernel gives it, unless there is one that it replaces.
func (d *disk) unlabelled(p string) bool {
	return d.kept != nil && !d.kept.looked[p] && d.kept.label(p) == nil && originalOf(p) == ""
}

// originalOf is the path whose original is kept at a path; "" where it is none.
func originalOf(p string) string {
	if was, ok := strings.CutPrefix(p, host.OrigDir+"/"); ok {
		return "/" + strings.TrimSuffix(was, host.OrigSuffix)
	}
	return ""
}

// label is what the file had that the update took away at a path, or whose original was or will be there.
func (p *pack) label(at string) label {
	for _, from := range []string{at, host.OrigDir + at + host.OrigSuffix, originalOf(at)} {
		if l := p.Labels[from]; l != nil {
			return l
		}
	}
	return nil
}

// attach attaches what an open file shall have.
func attach(a at, fd int, l label) error {
	for name, value := range l {
		err := a.change("setxattr", func() error { return unix.Fsetxattr(fd, name, value, 0) })
		if err != nil && !errors.Is(err, syscall.ENOTSUP) {
			return fmt.Errorf("attaching %s: %w", name, err)
		}
	}
	return nil
}
