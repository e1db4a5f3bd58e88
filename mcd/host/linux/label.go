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

// of is the part of a label that goes along with a file whose former one was controlled by a user, to an owner: SELinux' label was
// not that user's to give, and the user's own attributes go to files of that user alone.
func (l label) of(uid int, to host.Owner) label {
	if uid == 0 {
		return l
	}
	var kept label
	for name, value := range l {
		if uid == to.UID && strings.HasPrefix(name, "user.") {
			if kept == nil {
				kept = label{}
			}
			kept[name] = value
		}
	}
	return kept
}

// controller is the user who can change what is attached to a file: 0 where only root can, host.AnyUser where several can.
func (t *tree) controller(is unix.Stat_t) int {
	switch {
	case !t.privileged:
		return 0
	case is.Uid != 0:
		return int(is.Uid)
	case is.Mode&0o002 != 0, is.Mode&0o020 != 0 && is.Gid != 0:
		return host.AnyUser
	}
	return 0
}

// labelOf reads the label of the regular file at a path, as far as a file of that owner gets it; of anything else it is nil.
func (t *tree) labelOf(p string, to host.Owner) (label, error) {
	a, err := t.at(p)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer a.close()
	l, _, err := labelled(a, to)
	return l, err
}

// labelled reads what is attached to a file here, as far as a file of that owner gets it; ok is false where there is none.
func labelled(a at, to host.Owner) (l label, ok bool, _ error) {
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
	l, uid, err := a.root.labelAt(fd, a.path)
	return l.of(uid, to), true, err
}

// labelAt reads what is attached to an open file, and who can change that.
func (t *tree) labelAt(fd int, p string) (l label, uid int, _ error) {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return nil, 0, pathError("stat", p, err)
	}
	names, err := attribute(func(into []byte) (int, error) { return unix.Flistxattr(fd, into) })
	if err != nil {
		return nil, 0, pathError("listxattr", p, err)
	}
	for name := range strings.SplitSeq(string(bytes.Trim(names, "\x00")), "\x00") {
		if name == "" || !t.carried(name) {
			continue
		}
		value, err := attribute(func(into []byte) (int, error) { return unix.Fgetxattr(fd, name, into) })
		if err != nil {
			return nil, 0, pathError("getxattr", p, err)
		}
		if l == nil {
			l = label{}
		}
		l[name] = value
	}
	return l, t.controller(is), nil
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
func (d *disk) labelFor(a at, to host.Owner) (label, error) {
	if d.kept != nil && d.kept.looked[a.path] {
		return d.kept.Labels[a.path].of(d.kept.Users[a.path], to), nil
	}
	l, there, err := labelled(a, to)
	if there || err != nil {
		return l, err
	}
	kept, err := d.packed()
	if err != nil {
		kept = &pack{} // who needs its contents will say that it is damaged
	}
	if l, uid := kept.label(a.path); l != nil {
		return l.of(uid, to), nil
	}
	if was := originalOf(a.path); was != "" {
		return d.labelOf(was, to)
	}
	return nil, nil
}

// unlabelled tells that a new file gets nothing but what the kernel gives it, unless there is one that it replaces.
func (d *disk) unlabelled(p string) bool {
	if d.kept == nil || d.kept.looked[p] || originalOf(p) != "" {
		return false
	}
	l, _ := d.kept.label(p)
	return l == nil
}

// originalOf is the path whose original is kept at a path; "" where it is none.
func originalOf(p string) string {
	if was, ok := strings.CutPrefix(p, host.OrigDir+"/"); ok {
		return "/" + strings.TrimSuffix(was, host.OrigSuffix)
	}
	return ""
}

// label is what the file had that the update took away at a path, or whose original was or will be there, and who could change it.
func (p *pack) label(at string) (_ label, uid int) {
	for _, from := range []string{at, host.OrigDir + at + host.OrigSuffix, originalOf(at)} {
		if l := p.Labels[from]; l != nil {
			return l, p.Users[from]
		}
	}
	return nil, 0
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
