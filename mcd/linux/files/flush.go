package files

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

const (
	// syncWorkers is how many files are synced at the same time.
	syncWorkers = 16
	// maxSingleSyncs is the largest number of files that Flush syncs one by one. For more files, Flush syncs the whole
	// file system, if that is quick.
	maxSingleSyncs = 24
	// maxDirty is how many unwritten bytes of all processes a file system may have so that a sync of the whole file
	// system counts as quick.
	maxDirty = 256 << 20
)

// changes are the paths that may not be durable.
type changes struct {
	mu sync.Mutex
	// paths on the machine that changed.
	paths map[string]bool
	// unknown is true if paths that are not in the field paths may have changed.
	unknown bool
}

// add adds changed paths.
func (c *changes) add(paths ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paths == nil {
		c.paths = map[string]bool{}
	}
	for _, p := range paths {
		c.paths[p] = true
	}
}

// take returns the list of changes and empties the list.
func (c *changes) take() (paths map[string]bool, unknown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	paths, unknown = c.paths, c.unknown
	c.paths, c.unknown = nil, false
	return paths, unknown
}

func (c *changes) markUnknown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unknown = true
}

// Batch implements host.Disk.
func (r *Root) Batch() { r.batching = true }

// Flush implements host.Disk. Flush syncs the changed files and their directories at the same time. For many files,
// Flush syncs whole file systems, unless these have much unwritten data of other processes.
func (r *Root) Flush(context.Context) error {
	paths, unknown := r.changed.take()
	err := r.flush(paths, unknown)
	if err != nil {
		r.changed.add(slices.Collect(maps.Keys(paths))...)
		if unknown {
			r.changed.markUnknown()
		}
	}
	r.batching = false
	return err
}

func (d *disk) flush(paths map[string]bool, unknown bool) error {
	dirs := map[string]bool{}
	for p := range paths {
		dirs[path.Dir(p)] = true
	}
	if unknown || len(paths) > maxSingleSyncs && canSyncQuickly() {
		enough, err := d.syncWhole(slices.Sorted(maps.Keys(dirs)))
		if err != nil || enough && !unknown {
			return err
		}
	}
	all := maps.Clone(dirs)
	maps.Copy(all, paths)
	return d.syncEach(slices.Sorted(maps.Keys(all)))
}

// canSyncQuickly reports whether little data waits for the disk, and the kernel reports errors of syncfs (Linux 5.8).
func canSyncQuickly() bool {
	var system unix.Utsname
	if err := unix.Uname(&system); err != nil {
		return false
	}
	release := strings.FieldsFunc(unix.ByteSliceToString(system.Release[:]), func(c rune) bool {
		return c < '0' || c > '9'
	})
	if len(release) < 2 {
		return false
	}
	major, minor := number(release[0]), number(release[1])
	if major < 5 || major == 5 && minor < 8 {
		return false
	}
	text, err := os.ReadFile("/proc/meminfo")
	return err == nil && kilobytes(text, "\nDirty:")+kilobytes(text, "\nWriteback:") <= maxDirty>>10
}

// kilobytes returns the value of a line of /proc/meminfo; 0 for a missing line.
func kilobytes(text []byte, name string) int {
	_, rest, found := bytes.Cut(text, []byte(name))
	if !found {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if f := strings.Fields(string(line)); len(f) > 0 {
		return number(f[0])
	}
	return 0
}

// number parses a number. For an invalid text, number returns a very large number.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 1 << 30
	}
	return n
}

// syncableSystems are the file systems on which syncfs makes all changes durable. The last one, tmpfs, loses
// everything in a power cut anyway.
var syncableSystems = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}

// syncWhole syncs the file systems of directories, each once. syncWhole returns true if all of them are then durable.
func (t *tree) syncWhole(dirs []string) (enough bool, _ error) {
	enough = true
	done := map[uint64]bool{}
	for _, p := range dirs {
		err := t.within(p, func(a openName) error {
			var is unix.Stat_t
			if err := unix.Fstat(a.dir, &is); err != nil || done[is.Dev] {
				return pathError("stat", p, err)
			}
			done[is.Dev] = true
			return a.openedDir(func(a openName, fd int) error {
				var of unix.Statfs_t
				if err := unix.Fstatfs(fd, &of); err != nil {
					return pathError("stat", p, err)
				}
				enough = enough && slices.Contains(syncableSystems, of.Type)
				return a.change("syncfs", func() error { return unix.Syncfs(fd) })
			})
		})
		if err != nil && !IsUnsafe(err) {
			return false, err
		}
	}
	return enough, nil
}

// eachIn opens a directory, if it exists, and calls the function do with it. eachIn follows links.
func (t *tree) eachIn(dir string, do func(a openName, fd int) error) error {
	return t.within(dir, func(a openName) error { return a.openedDir(do) })
}

// within finds a directory, if it exists, and calls the function do with it. within follows links.
func (t *tree) within(dir string, do func(a openName) error) error {
	d, err := t.below.Dir(dir)
	if IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	return do(openName{root: t, dir: d.FD, name: ".", path: dir, holder: d.Holder, shared: d.Shared})
}

// openedDir opens a directory, and calls the function do with its descriptor.
func (a openName) openedDir(do func(a openName, fd int) error) error {
	fd, err := a.open(unix.O_RDONLY | unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	return do(a, fd)
}

// IsUnsafe reports whether an error is about a path that a user could redirect.
func IsUnsafe(err error) bool { return errors.As(err, new(*host.UnsafePathError)) }

// syncEach syncs files and directories at the same time. A link or a removed file is durable with its directory.
// syncEach ignores a path that a user redirected.
func (t *tree) syncEach(paths []string) error {
	workers := min(syncWorkers, len(paths))
	if t.trap != nil {
		// Only one worker syncs the files, because tests that set the trap need a fixed order.
		workers = min(1, len(paths))
	}
	todo, bad := make(chan string), make(chan error, workers)
	for range workers {
		go func() {
			var all error
			for p := range todo {
				if all == nil {
					all = t.syncOne(p)
				}
			}
			bad <- all
		}()
	}
	for _, p := range paths {
		todo <- p
	}
	close(todo)
	var all error
	for range workers {
		all = errors.Join(all, <-bad)
	}
	return all
}

func (t *tree) syncOne(p string) error {
	a, err := t.at(p)
	if IsAbsent(err) || IsUnsafe(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer a.close()
	fd, err := a.open(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY)
	switch {
	case IsAbsent(err), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO):
		return nil
	case errors.Is(err, fs.ErrPermission) && !t.privileged:
		return nil // This is a file on a simulated host, whose user may have no right to read it.
	case err != nil:
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	return a.sync(fd)
}

// Resume implements host.Disk. Resume finds temporary files by their names, which configs may not use.
func (r *Root) Resume(_ context.Context, steps []host.Step) error {
	dirs := map[string]bool{path.Dir(host.PasswdPath): true, host.UnitDir: true}
	for _, s := range steps {
		if s.IsPath() {
			r.changed.add(s.Target)
			dirs[path.Dir(s.Target)] = true
			r.resumeLabel(s)
		}
	}
	pulls, err := r.List(host.UnitDir)
	for _, name := range pulls {
		if path.Ext(name) == ".wants" || path.Ext(name) == ".requires" || path.Ext(name) == ".upholds" {
			dirs[path.Join(host.UnitDir, name)] = true
			r.resumeLinks(path.Join(host.UnitDir, name), steps)
		}
	}
	bad := []error{err}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		r.changed.add(path.Join(dir, "x"))
		bad = append(bad, r.tidy(dir))
	}
	for _, p := range []string{host.PasswdPath, host.GroupPath, host.ShadowPath} {
		r.changed.add(p)
	}
	r.changed.markUnknown()
	return errors.Join(bad...)
}

// resumeLabel notes the path of a step whose process died, maybe before the path had the label of the machine's policy.
// It is the path of a directory or link that the rollback makes again, or of a file whose label nobody stored. If this
// process began the update, it knows what it made.
func (d *disk) resumeLabel(s host.Step) {
	was := s.Before.Entry
	if d.began() || was == s.After.Entry {
		return
	}
	switch was.Kind {
	case host.Link:
		d.noteInherited(s.Target)
	case host.Dir:
		if s.After.Entry.Kind != host.Dir {
			d.noteInherited(s.Target)
		}
	case host.File:
		kept, err := d.loadStore()
		if err != nil {
			return // A rollback that needs the store reports that it is damaged.
		}
		if l, uid := kept.label(s.Target); l.of(uid, was.Owner)[securityLabel] == nil {
			d.noteInherited(s.Target)
		}
	}
}

// resumeLinks notes a directory in which steps enable or disable units, and its links: a step may have made the
// directory, and the rollback makes links again.
func (d *disk) resumeLinks(dir string, steps []host.Step) {
	for _, s := range steps {
		if (s.Verb == host.Disable || s.Verb == host.Enable) && !d.began() {
			d.noteInherited(dir)
			d.noteInherited(path.Join(dir, s.Target))
		}
	}
}

// began reports whether this process began the update, so that it knows what it made.
func (d *disk) began() bool { return d.store != nil && d.store.labelled != nil }

// tidy removes the temporary files of a process that died.
func (r *Root) tidy(dir string) error {
	names, err := r.List(dir)
	if IsUnsafe(err) {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, host.NewSuffix) {
			err = errors.Join(err, r.Remove(path.Join(dir, name)))
		}
	}
	return err
}
