package files

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Blockers implements host.Disk. Blockers asks the kernel about each path and the directory in which it stands, and
// adds up the space of each file system. Errors of the kernel that it does not expect are blockers too.
func (r *Root) Blockers(steps []host.Step, size func(host.Digest) int64) []host.Blocker {
	q := inquiry{
		disk: r.disk, steps: steps, size: size, moved: map[string]bool{}, dirs: map[string]*directory{},
		systems: map[uint64]*space{},
	}
	_ = q.openDir("/", func(_ openName, fd int) error {
		var is unix.Statx_t
		err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &is)
		q.root = unix.Mkdev(is.Dev_major, is.Dev_minor)
		return err
	})
	for _, s := range steps {
		if s.IsPath() && s.Before.Entry.Kind != host.Dir && s.Before.Entry.Kind != s.After.Entry.Kind {
			q.moved[s.Target] = true
		}
	}
	for _, s := range steps {
		switch {
		case s.IsPath():
			q.ask(s)
		case s.Verb == host.SetUser || s.Verb == host.SetGroup || s.Verb == host.DropUser || s.Verb == host.DropGroup:
			for _, p := range accountFiles {
				q.askAboutReplacement(p)
			}
		case s.Verb == host.Enable || s.Verb == host.Disable:
			q.askAboutDir(path.Join(host.UnitDir, s.Target))
		}
	}
	if len(steps) > 0 {
		if in := q.askAboutDir(storePath); in != nil {
			q.spend(in, change{path: storePath, bytes: q.kept, leaves: true})
		}
	}
	return q.found
}

// accountFiles are the files that a step about a user or group may replace.
var accountFiles = []string{host.PasswdPath, host.GroupPath, host.ShadowPath, "/etc/gshadow"}

// inquiry looks for what would stop some steps.
type inquiry struct {
	*disk
	steps []host.Step
	size  func(host.Digest) int64
	// moved are paths that are no directory today, and may be one after the steps.
	moved map[string]bool
	// dirs are the directories that were asked about, by path on the machine.
	dirs map[string]*directory
	// systems are the file systems, by device, and root is the device of the machine's root.
	systems map[uint64]*space
	root    uint64
	found   []host.Blocker
	// kept are the bytes of replaced files, which the daemon keeps for a rollback.
	kept int64
}

// directory is a directory of the machine; fs is its file system, nil if the directory could not be opened, and mount
// is the mount with it.
type directory struct {
	fs    *space
	mount uint64
}

// space is what the steps need of a file system so far.
type space struct {
	of          unix.Statfs_t
	bytes, made int64
	told        bool
	// inMemory is true for a file system in memory, unless it is that of the root.
	inMemory bool
}

// add adds a blocker, unless the same one is known.
func (q *inquiry) add(b host.Blocker) {
	if !slices.ContainsFunc(q.found, func(o host.Blocker) bool { return o.Kind == b.Kind && o.At == b.At }) {
		q.found = append(q.found, b)
	}
}

// ask asks about a step that changes a path.
func (q *inquiry) ask(s host.Step) {
	was, now := s.Before.Entry, s.After.Entry
	if was == now && now.Kind != host.Hard {
		return
	}
	if was.Kind == host.Other {
		q.add(host.Blocker{Kind: host.Special, Path: s.Target, At: s.Target})
		return
	}
	if was.Kind == host.Dir && now.Kind == host.Dir {
		if q.askAbout(s.Target, true); q.isReadOnly(s.Target) {
			q.add(host.Blocker{Kind: host.ReadOnlyMount, Path: s.Target, At: s.Target})
		}
		return
	}
	in := q.askAboutDir(s.Target)
	if in == nil {
		return
	}
	needs := change{path: s.Target, replaces: was.Kind != host.Absent, leaves: now.Kind != host.Absent}
	if needs.replaces {
		kept := int64(0)
		needs.freed, kept = q.askAbout(s.Target, false)
		q.kept += kept
	}
	if was.Kind == host.Dir && needs.leaves {
		names, _ := q.List(s.Target) // A directory that cannot be read cannot be removed either, if it has entries.
		if left := host.EntriesLeft(s.Target, names, q.steps); len(left) > 0 {
			q.add(host.Blocker{
				Kind: host.UsedDir, Path: s.Target, At: s.Target, Text: host.EntriesText(left),
			})
		}
	}
	switch now.Kind {
	case host.File:
		needs.bytes = q.size(now.Digest)
	case host.Hard:
		q.askAboutFirstName(s.Target, now.Target)
	}
	q.spend(in, needs)
	if now.Kind == host.File && !in.told {
		q.rehearse(s.Target, now, needs.bytes)
	}
	if needs.leaves && in.inMemory && !in.told {
		q.add(host.Blocker{Kind: host.InMemory, Path: s.Target, At: path.Dir(s.Target)})
	}
}

// askAboutFirstName asks whether a file can get a second name. Files with some attributes cannot, and no file can have
// names in two mounts.
func (q *inquiry) askAboutFirstName(second, first string) {
	if q.askAboutDir(first) == nil {
		return
	}
	mount := q.mountOf(first)
	isStep := func(s host.Step) bool { return s.IsPath() && s.Target == first && s.Before != s.After }
	if !slices.ContainsFunc(q.steps, isStep) { // Otherwise it is a new file.
		is := q.statx(first)
		if kind := attributeOf(is); kind != "" {
			q.add(host.Blocker{Kind: kind, Path: second, At: first})
		}
		if is.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
			mount = mountIn(is)
		}
	}
	if mount != q.mountOf(second) {
		q.add(host.Blocker{Kind: host.OtherSystem, Path: second, At: first})
	}
}

// statx asks the kernel about what is at a path; the zero value if that fails.
func (q *inquiry) statx(p string) (is unix.Statx_t) {
	a, err := q.at(p)
	if err != nil {
		return is
	}
	defer a.close()
	if err := unix.Statx(a.dir, a.name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID,
		&is); err != nil {
		return unix.Statx_t{}
	}
	return is
}

// mountOf returns the mount of the directory of a path, about which askAboutDir has asked.
func (q *inquiry) mountOf(p string) uint64 {
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		if known, ok := q.dirs[dir]; ok {
			return known.mount
		}
	}
}

// rehearse makes the file of a step as the step does, with its size, owner, mode and label, but without a name, and
// lets it go. So the kernel answers for what cannot be seen: quotas, security modules, limits of the file system.
//
// The new contents do not wait beside their targets through the drain: they would be secrets on a disk that may never
// get them, and take the space twice. The file has no name even for an instant, because programs watch directories (a
// change makes cron read its directory again, and the kubelet start a pod), and a name would stay after a crash. What
// rehearse cannot find is a security module that judges names, and file systems without files without names.
func (q *inquiry) rehearse(p string, want host.Entry, bytes int64) {
	for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
		if q.moved[dir] {
			return // Earlier steps make the directory.
		}
	}
	to, err := q.at(p)
	if err != nil {
		return // Earlier steps make the directory, or it has a blocker.
	}
	defer to.close()
	if err := q.tryFile(to, want, bytes); err != nil {
		q.add(host.Blocker{Kind: host.Denied, Path: p, At: path.Dir(p), Text: kernelText(err)})
	}
}

// tryFile makes a file without a name beside a path. The error is that with which the kernel would refuse the file.
func (d *disk) tryFile(to openName, want host.Entry, bytes int64) error {
	for _, name := range []string{to.name, temporary(to.name)} {
		if _, err := to.sibling(name).stat(); err != nil && !IsAbsent(err) {
			return err
		}
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(to.dir, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return nil //nolint:nilerr // askAboutDir judges the directory, and not every file system has such files
	}
	defer unix.Close(fd) //nolint:errcheck // it has no name
	if bytes > 0 {
		_, err := retry(func() (int, error) { return 0, unix.Fallocate(fd, 0, 0, bytes) })
		if err != nil && !errors.Is(err, syscall.EOPNOTSUPP) && !errors.Is(err, syscall.ENOSYS) {
			return err
		}
	}
	label, err := d.labelFor(to, want.Owner)
	if err != nil {
		return err
	}
	return errors.Join(to.setOwnerAndMode(fd, want), to.attach(fd, label))
}

// askAboutReplacement asks whether an existing file can be replaced.
func (q *inquiry) askAboutReplacement(p string) {
	if q.askAboutDir(p) != nil {
		q.askAbout(p, false)
	}
}

// askAboutDir asks whether new names are possible in the directory of a path, or in the lowest one above it that
// exists. It returns nil if they are not.
func (q *inquiry) askAboutDir(p string) *space {
	for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
		if q.moved[dir] {
			p = dir
		}
	}
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		if known, ok := q.dirs[dir]; ok {
			return known.fs
		}
		known := &directory{}
		err := q.openDir(dir, func(a openName, fd int) error {
			known.fs, known.mount = q.askAboutOpenDir(a, fd, p), mountAt(fd)
			return nil
		})
		if IsAbsent(err) && dir != "/" {
			continue
		}
		if err != nil && !IsUnsafe(err) { // The plan judges an unsafe path.
			q.add(host.Blocker{Kind: host.Denied, Path: p, At: dir, Text: kernelText(err)})
		}
		q.dirs[dir] = known
		return known.fs
	}
}

// openDir opens a directory, and follows links. A directory that does not exist is an error.
func (t *tree) openDir(dir string, do func(a openName, fd int) error) error {
	d, err := t.below.Dir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return openName{root: t, dir: d.FD, name: ".", path: dir, holder: d.Holder, shared: d.Shared}.openedDir(do)
}

// mountAt returns the mount of an open directory; 0 if the kernel does not tell.
func mountAt(fd int) uint64 {
	var is unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &is); err != nil {
		return 0
	}
	return mountIn(is)
}

// mountIn returns a mount, or its device with a kernel before 5.8, which does not tell mounts.
func mountIn(is unix.Statx_t) uint64 {
	if is.Mask&unix.STATX_MNT_ID == 0 {
		return unix.Mkdev(is.Dev_major, is.Dev_minor)
	}
	return is.Mnt_id
}

// askAboutOpenDir asks the kernel for a file without a name in a directory, which it makes nowhere visible.
func (q *inquiry) askAboutOpenDir(a openName, fd int, p string) *space {
	var is unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &is); err != nil {
		q.add(host.Blocker{Kind: host.Denied, Path: p, At: a.path, Text: kernelText(err)})
		return nil
	}
	if kind := attributeOf(is); kind != "" {
		q.add(host.Blocker{Kind: kind, Path: p, At: a.path})
		return nil
	}
	on := uint64(unix.Mkdev(is.Dev_major, is.Dev_minor))
	if q.systems[on] == nil {
		q.systems[on] = &space{}
		if err := unix.Fstatfs(fd, &q.systems[on].of); err != nil {
			q.systems[on].told = true // Nothing is known about its space.
		}
		kind := q.systems[on].of.Type
		q.systems[on].inMemory = on != q.root && (kind == unix.TMPFS_MAGIC || kind == unix.RAMFS_MAGIC)
	}
	made, err := retry(func() (int, error) {
		return unix.Openat(a.dir, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	})
	switch {
	case err == nil:
		unix.Close(made) //nolint:errcheck,gosec // it has no name
	case errors.Is(err, syscall.EROFS):
		q.add(host.Blocker{Kind: host.ReadOnlyMount, Path: p, At: a.path})
		return nil
	case errors.Is(err, syscall.ENOSPC):
		q.add(host.Blocker{Kind: host.NoInodes, Path: p, At: a.path})
		return nil
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EDQUOT),
		errors.Is(err, syscall.EIO):
		q.add(host.Blocker{Kind: host.Denied, Path: p, At: a.path, Text: kernelText(err)})
		return nil
	}
	return q.systems[on] // Not every file system and kernel has files without names.
}

// askAbout asks about what is at a path, which goes unless it is a directory that stays. It returns the bytes that its
// removal frees, and the bytes that the daemon keeps for a rollback.
func (q *inquiry) askAbout(p string, stays bool) (freed, kept int64) {
	is := q.statx(p) // Without an answer, the directory has a blocker, or the plan judges the path.
	if kind := attributeOf(is); kind != "" {
		q.add(host.Blocker{Kind: kind, Path: p, At: p})
	}
	if is.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 && !stays {
		q.add(host.Blocker{Kind: host.MountPoint, Path: p, At: p})
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, 0
	}
	if is.Nlink == 1 {
		freed = int64(is.Blocks) * 512 //nolint:gosec // sizes fit
	}
	return freed, int64(is.Size) //nolint:gosec // sizes fit
}

func (q *inquiry) isReadOnly(dir string) (is bool) {
	_ = q.eachIn(dir, func(_ openName, fd int) error {
		var of unix.Statfs_t
		is = unix.Fstatfs(fd, &of) == nil && of.Flags&unix.ST_RDONLY != 0
		return nil
	})
	return is
}

// attributeOf returns the attribute that stops changes of a file or directory; "" if there is none.
func attributeOf(is unix.Statx_t) host.BlockerKind {
	switch {
	case is.Attributes&unix.STATX_ATTR_IMMUTABLE != 0:
		return host.Immutable
	case is.Attributes&unix.STATX_ATTR_APPEND != 0:
		return host.AppendOnly
	}
	return ""
}

// change is what one step needs of a file system.
type change struct {
	path string
	// bytes are those of a new file.
	bytes int64
	// leaves is true if the path exists after the step. replaces is true if it exists before, and its removal frees
	// the bytes in freed.
	leaves, replaces bool
	freed            int64
}

// spend adds what one step needs. A new file is complete before the old one goes.
func (q *inquiry) spend(on *space, c change) {
	block := max(on.of.Bsize, 1)
	if c.leaves {
		on.bytes += (c.bytes + block - 1) / block * block
		on.made++
	}
	blocks := on.of.Bavail
	if q.privileged {
		blocks = on.of.Bfree
	}
	free := int64(blocks) * on.of.Bsize //nolint:gosec // sizes fit
	switch {
	case on.told || on.of.Blocks == 0: // The file system does not say its size.
	case on.bytes > free:
		on.told = true
		q.add(host.Blocker{Kind: host.Full, Path: c.path, At: path.Dir(c.path), Need: on.bytes, Free: free})
	case on.of.Files > 0 && on.made > int64(on.of.Ffree): //nolint:gosec // numbers fit
		on.told = true
		q.add(host.Blocker{Kind: host.NoInodes, Path: c.path, At: path.Dir(c.path)})
	}
	if c.replaces {
		on.bytes -= c.freed
		on.made--
	}
}

// kernelText returns the kernel's words for an error, without the call and the path.
func kernelText(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return err.Error()
}
