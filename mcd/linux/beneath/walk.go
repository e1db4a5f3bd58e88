package beneath

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// maxLinks is how many links one path may contain, as in the kernel.
const maxLinks = 40

// errCircle is the error for a path with more links. No file is behind them.
var errCircle = fmt.Errorf("links lead to each other in a circle: %w", fs.ErrNotExist)

// walk opens the components of a path one after the other.
type walk struct {
	*Tree
	// path is the path to open, for errors.
	path string
	// open are the open directories from the root to the present one, without links. A ".." leads to the previous
	// directory in open.
	open []opened
	// todo are the remaining components.
	todo []component
	// links counts the links that were followed.
	links int
}

// opened is an open directory of the path.
type opened struct {
	fd   int
	path string
	uid  uint32
	dev  uint64
	// holder is the uid of the user who controls the directory or one above it; 0 if there is none. holder is
	// host.AnyUser if several users can rename in the directory.
	holder int
	// shared is true if other users than root can add names to the directory.
	shared bool
}

// component is a remaining name, or marks the end of a link's target.
type component struct {
	name string
	end  *link
}

// link is a link whose target must belong to a user.
type link struct {
	path, target string
	// uid is the uid of the user to whom the target must belong.
	uid int
}

// walk opens a directory by the rules that the package documents.
func (t *Tree) walk(p string) (Dir, error) {
	w := &walk{Tree: t, path: p, open: []opened{{fd: t.dir, path: "/"}}, todo: components(p)}
	defer func() { w.back(1) }()
	for len(w.todo) > 0 {
		next := w.todo[0]
		w.todo = w.todo[1:]
		if err := w.step(next); err != nil {
			return Dir{}, err
		}
	}
	here := w.here()
	fd, err := again(func() (int, error) {
		return unix.FcntlInt(uintptr(here.fd), unix.F_DUPFD_CLOEXEC, 0)
	}) //nolint:gosec // a descriptor is positive
	return Dir{FD: fd, Holder: here.holder, Shared: here.shared || here.holder != 0}, pathError(p, err)
}

func components(p string) (all []component) {
	for name := range strings.SplitSeq(p, "/") {
		if name != "" && name != "." {
			all = append(all, component{name: name})
		}
	}
	return all
}

func (w *walk) here() opened { return w.open[len(w.open)-1] }

// back closes all directories except the first ones.
func (w *walk) back(to int) {
	for _, o := range w.open[to:] {
		unix.Close(o.fd) //nolint:errcheck,gosec // only a place
	}
	w.open = w.open[:to]
}

// step opens one component.
func (w *walk) step(c component) error {
	switch {
	case c.end != nil:
		return w.ended(*c.end)
	case c.name == "..":
		return w.up()
	}
	at := path.Join(w.here().path, c.name)
	fd, other, err := w.openName(c.name)
	if err != nil {
		return pathError(w.path, err)
	}
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		unix.Close(fd) //nolint:errcheck,gosec // only a place
		return pathError(w.path, err)
	}
	if w.between != nil {
		w.between(at)
	}
	if is.Mode&unix.S_IFMT == unix.S_IFDIR {
		next := opened{fd: fd, path: at, uid: is.Uid, dev: is.Dev}
		next.holder, err = w.enter(next, other || is.Dev != w.here().dev)
		if err != nil {
			unix.Close(fd) //nolint:errcheck,gosec // only a place
			return err
		}
		if next.shared = w.writable(is); next.shared && next.holder == 0 && is.Mode&unix.S_ISVTX == 0 {
			next.holder = host.AnyUser
		}
		w.open = append(w.open, next)
		return nil
	}
	defer unix.Close(fd) //nolint:errcheck // only a place
	if is.Mode&unix.S_IFMT != unix.S_IFLNK {
		return pathError(w.path, unix.ENOTDIR)
	}
	return w.follow(fd, is, at)
}

// up handles "..". The user who controls a directory can move it, and so choose where ".." leads. So ".." may leave a
// user's directory only in the target of a link that must end in a directory of that user.
func (w *walk) up() error {
	here, above := w.here(), w.open[max(0, len(w.open)-2)]
	end := w.mustEndAt()
	if here.holder != 0 && above.holder != here.holder && end != here.holder && (here.holder > 0 || end == 0) {
		return w.refuse(here.path, here.holder, fmt.Sprintf("a link leads by .. out of %s, which belongs to uid %d",
			here.path, here.uid), "name the path that the link stands for")
	}
	w.back(max(1, len(w.open)-1))
	return nil
}

// mustEndAt returns the user in whose directory the present link must end; 0 if it may end anywhere.
func (w *walk) mustEndAt() int {
	for _, c := range w.todo {
		if c.end != nil {
			return c.end.uid
		}
	}
	return 0
}

// openName opens a name in the present directory; for a link, it opens the link itself. The result mounted is true if
// another file system is mounted at the name, below a user's directory. Kernels without openat2 do not report bind
// mounts.
func (w *walk) openName(name string) (fd int, mounted bool, err error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	here := w.here()
	if w.openat2 && here.holder > 0 {
		how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS}
		fd, err = again(func() (int, error) { return unix.Openat2(here.fd, name, &how) })
		if err != unix.EXDEV { //nolint:errorlint // the kernel's bare number
			return fd, false, err
		}
		mounted = true
	}
	fd, err = again(func() (int, error) { return unix.Openat(here.fd, name, flags, 0) })
	return fd, mounted, err
}

// enter checks a directory in the present directory, and returns the user who controls it.
func (w *walk) enter(next opened, mounted bool) (holder int, _ error) {
	here, owner := w.here(), w.owner(next.uid)
	switch {
	case here.holder <= 0, owner == here.holder:
		return owner, nil
	case owner == 0 && !mounted:
		return here.holder, nil
	}
	what := "is a directory"
	if mounted {
		what = "is a mount point"
	}
	return 0, w.refuse(next.path, here.holder,
		fmt.Sprintf("%s %s of uid %d below a directory of uid %d, who could exchange it for another one", next.path,
			what, next.uid, here.holder),
		fmt.Sprintf("give the directories above it to root (chown root), or %s to uid %d", next.path, here.holder))
}

// follow checks a link in the present directory, and follows it.
func (w *walk) follow(fd int, is unix.Stat_t, at string) error {
	if w.links++; w.links > maxLinks {
		return pathError(w.path, errCircle)
	}
	var of unix.Statfs_t
	if err := unix.Fstatfs(fd, &of); err != nil {
		return pathError(w.path, err)
	}
	var to [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", to[:])
	if err != nil {
		return pathError(w.path, err)
	}
	here, owner, l := w.here(), w.owner(is.Uid), link{path: at, target: string(to[:n])}
	switch {
	case of.Type == unix.PROC_SUPER_MAGIC:
		return w.refuse(at, owner, fmt.Sprintf("%s is a link of /proc, which leads to an open file of a process", at),
			"name the path that it stands for")
	case here.holder == 0:
		l.uid = owner
	case here.holder == host.AnyUser && owner == 0:
		return w.refuse(at, host.AnyUser, fmt.Sprintf("several users can rename in %s, so that the link %s may be "+
			"there by one of them", here.path, at),
			fmt.Sprintf("take the right to write in %s from groups and others (chmod go-w %s), or name the path that "+
				"the link stands for", here.path, here.path))
	case here.holder == host.AnyUser:
		l.uid = owner
	case owner != 0 && owner != here.holder:
		return w.refuse(at, owner, fmt.Sprintf("%s is a link of uid %d in a directory of uid %d", at, owner,
			here.holder), "remove the link")
	default:
		l.uid = here.holder
	}
	if path.IsAbs(l.target) {
		w.back(1)
	}
	todo := components(l.target)
	if l.uid != 0 {
		todo = append(todo, component{end: &l})
	}
	w.todo = append(todo, w.todo...)
	return nil
}

// ended checks the directory in which a user's link ends.
func (w *walk) ended(l link) error {
	here := w.here()
	if here.holder == l.uid && w.owner(here.uid) == l.uid {
		return nil
	}
	return w.refuse(l.path, l.uid,
		fmt.Sprintf("the link %s is controlled by uid %d and leads to %s, which belongs to uid %d", l.path, l.uid,
			here.path, here.uid),
		"remove the link, or name the path that it stands for")
}

func (w *walk) refuse(component string, uid int, why, fix string) error {
	return &host.UnsafePathError{Path: w.path, Component: component, UID: uid, Why: why, Fix: fix}
}
