package files

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// label has extended attributes of a file. A new file gets the SELinux label and the user attributes of the file that
// it replaces; the config sets mode and owner.
type label map[string][]byte

// original is a replaced file as it was. A file at its path with the same contents, mode and owner is this file again,
// after a rollback or when no config names the path any more, and gets all else back: capabilities, access control
// lists, other attributes, and the time of its last change.
type original struct {
	Entry      host.Entry
	Attributes label `json:",omitempty"`
	Modified   unix.Timespec
}

// restore sets the attributes and the time of an open file. An attribute that the file system or a security module does
// not let the daemon set is left out, unless it grants or denies rights.
func (o original) restore(a openName, fd int) error {
	for name, value := range o.Attributes {
		err := a.change("setxattr", func() error { return unix.Fsetxattr(fd, name, value, 0) })
		if err != nil && (strings.HasPrefix(name, "system.posix_acl") || name == "security.capability") {
			return fmt.Errorf("restoring %s: %w", name, err)
		}
	}
	times := []unix.Timeval{
		unix.NsecToTimeval(unix.TimespecToNsec(o.Modified)), unix.NsecToTimeval(unix.TimespecToNsec(o.Modified)),
	}
	return a.change("utimes", func() error { return unix.Futimes(fd, times) })
}

// originalFor returns the file that a new file at a path is again; nil if it is another file.
func (d *disk) originalFor(p string, want host.Entry) *original {
	kept, err := d.loadStore()
	if err != nil {
		return nil // A caller that needs the contents of the store reports that it is damaged.
	}
	for _, from := range []string{p, host.OrigDir + p + host.OrigSuffix, originalOf(p)} {
		o, ok := kept.Originals[from]
		if ok && o.Entry.Digest == want.Digest && o.Entry.Mode == want.Mode && o.Entry.Owner == want.Owner {
			return &o
		}
	}
	return nil
}

// securityLabel is the name of the SELinux attribute.
const securityLabel = "security.selinux"

// carries reports whether an attribute is copied to a new file.
func (t *tree) carries(name string) bool {
	return strings.HasPrefix(name, "user.") || name == securityLabel && t.privileged
}

// of returns the part of the label that a new file with the given owner gets, if a user controlled the old file. of
// omits the SELinux label. of also omits user attributes, unless this user owns the new file.
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

// controller returns the user who can change the attributes of a file: 0 if only root can, host.AnyUser if several
// users can.
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

// labelOf reads the part of the label of a regular file that a new file of an owner gets; nil for other kinds.
func (t *tree) labelOf(p string, to host.Owner) (label, error) {
	a, err := t.at(p)
	if IsAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer a.close()
	l, _, err := a.labelled(to)
	return l, err
}

// labelled reads the part of the label of a file that a new file of an owner gets; ok is false if the path is not a
// regular file.
func (a openName) labelled(to host.Owner) (l label, ok bool, _ error) {
	fd, err := a.open(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY)
	switch {
	case IsAbsent(err), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO):
		return nil, false, nil
	case err != nil && !a.root.privileged:
		return nil, true, nil // The user of a simulated host may have no right to read the file.
	case err != nil:
		return nil, false, err
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	l, uid, err := a.root.labelAt(fd, a.path)
	return l.of(uid, to), true, err
}

// labelAt reads the label of an open file, and the user who can change it.
func (t *tree) labelAt(fd int, p string) (_ label, uid int, _ error) {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return nil, 0, pathError("stat", p, err)
	}
	l, err := attributesOf(fd, p, func(name string) bool { return t.carries(name) })
	return l, t.controller(is), err
}

// attributesOf reads the extended attributes of an open file that have a wanted name.
func attributesOf(fd int, p string, wanted func(name string) bool) (l label, _ error) {
	names, err := attribute(func(into []byte) (int, error) { return unix.Flistxattr(fd, into) })
	if err != nil {
		return nil, pathError("listxattr", p, err)
	}
	for name := range strings.SplitSeq(string(bytes.Trim(names, "\x00")), "\x00") {
		if name == "" || !wanted(name) {
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

// attribute reads the value of an extended attribute; nil if the file system does not support extended attributes.
func attribute(read func([]byte) (int, error)) ([]byte, error) {
	for into := make([]byte, 256); ; into = make([]byte, 4*len(into)) {
		n, err := retry(func() (int, error) { return read(into) })
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

// labelFor returns the label of a new file. The label is that of the existing file, or else of the file that the update
// removes, stores as an original or restores. If there is no such label, the file keeps the label that the kernel set
// at its creation.
func (d *disk) labelFor(a openName, to host.Owner) (label, error) {
	if d.store != nil && d.store.labelled[a.path] {
		return d.store.Labels[a.path].of(d.store.Users[a.path], to), nil
	}
	l, there, err := a.labelled(to)
	if err != nil || l[securityLabel] != nil {
		return l, err
	}
	kept, err := d.loadStore()
	if err != nil {
		// The store cannot be read. A caller that needs its contents reports that the store is damaged.
		kept = &storeFile{}
	}
	was, uid := kept.label(a.path)
	switch {
	case there: // The label of a file that a user controls does not count, and that of the file before it does.
		if was := was.of(uid, to)[securityLabel]; was != nil {
			l = maps.Clone(l)
			if l == nil {
				l = label{}
			}
			l[securityLabel] = was
		}
		return l, nil
	case was != nil:
		return was.of(uid, to), nil
	}
	if was := originalOf(a.path); was != "" {
		return d.labelOf(was, to)
	}
	return nil, nil
}

// unlabelled reports whether a new file at an unused path gets only the label of the kernel.
func (d *disk) unlabelled(p string) bool {
	if d.store == nil || d.store.labelled[p] || originalOf(p) != "" {
		return false
	}
	l, _ := d.store.label(p)
	return l == nil
}

// originalOf returns the path whose original is stored at the given path; "" for other paths.
func originalOf(p string) string {
	if was, ok := strings.CutPrefix(p, host.OrigDir+"/"); ok {
		return "/" + strings.TrimSuffix(was, host.OrigSuffix)
	}
	return ""
}

// label returns a stored label, and the user who could change it. The label is that of the file at a path, of the
// original of this file, or of the file whose original this file is.
func (p *storeFile) label(at string) (_ label, uid int) {
	for _, from := range []string{at, host.OrigDir + at + host.OrigSuffix, originalOf(at)} {
		if l := p.Labels[from]; l != nil {
			return l, p.Users[from]
		}
	}
	return nil, 0
}

// attach sets the attributes of an open file.
func (a openName) attach(fd int, l label) error {
	for name, value := range l {
		err := a.change("setxattr", func() error { return unix.Fsetxattr(fd, name, value, 0) })
		if err != nil && !errors.Is(err, syscall.ENOTSUP) {
			return fmt.Errorf("attaching %s: %w", name, err)
		}
	}
	return nil
}
