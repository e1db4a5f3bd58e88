package linux

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
	// atOnce is how many files are synced side by side: what they wait for is then often the same.
	atOnce = 16
	// few is up to how many files each is synced by itself. Beyond, their whole file system is, where that is quick.
	few = 24
	// quick is how many bytes may wait for the disk, whoever wrote them, for a whole file system to be synced quickly.
	quick = 256 << 20
)

// changes are what is not known to be durable.
type changes struct {
	mu sync.Mutex
	// paths that changed, as the machine names them.
	paths map[string]bool
	// unknown: there may be others.
	unknown bool
}

// add counts paths as changed.
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

// take empties it.
func (c *changes) take() (paths map[string]bool, unknown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	paths, unknown = c.paths, c.unknown
	c.paths, c.unknown = nil, false
	return paths, unknown
}

func (c *changes) more() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unknown = true
}

// Batch implements host.Disk.
func (r *Root) Batch() { r.batching = true }

// Flush implements host.Disk. The files and the directories that name them are synced side by side; when they are many,
// their whole file systems are, if that does not wait for much that others wrote.
func (r *Root) Flush(context.Context) error {
	paths, unknown := r.changed.take()
	err := r.flush(paths, unknown)
	if err != nil {
		r.changed.add(slices.Collect(maps.Keys(paths))...)
		if unknown {
			r.changed.more()
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
	if unknown || len(paths) > few && quickly() {
		enough, err := syncWhole(d.tree, slices.Sorted(maps.Keys(dirs)))
		if err != nil || enough && !unknown {
			return err
		}
	}
	all := maps.Clone(dirs)
	maps.Copy(all, paths)
	return syncEach(d.tree, slices.Sorted(maps.Keys(all)))
}

// quickly tells that little waits for the disk, and that this kernel tells when syncing a file system failed.
func quickly() bool {
	var system unix.Utsname
	if err := unix.Uname(&system); err != nil {
		return false
	}
	release := strings.FieldsFunc(unix.ByteSliceToString(system.Release[:]), func(c rune) bool { return c < '0' || c > '9' })
	if len(release) < 2 {
		return false
	}
	major, minor := number(release[0]), number(release[1])
	if major < 5 || major == 5 && minor < 8 {
		return false
	}
	text, err := os.ReadFile("/proc/meminfo")
	return err == nil && kilobytes(text, "\nDirty:")+kilobytes(text, "\nWriteback:") <= quick>>10
}

// kilobytes reads a line of /proc/meminfo; one that is missing is 0.
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

// number reads one; what is none is too large.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 1 << 30
	}
	return n
}

// wholes are the file systems that are known to write all that they have when they are asked to. The last one keeps
// nothing over a power cut anyway.
var wholes = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}

// syncWhole syncs the file systems that directories are on, each once. It tells whether that made all of them durable.
func syncWhole(t *tree, dirs []string) (enough bool, _ error) {
	enough = true
	done := map[uint64]bool{}
	for _, p := range dirs {
		err := within(t, p, func(a at) error {
			var is unix.Stat_t
			if err := unix.Fstat(a.dir, &is); err != nil || done[is.Dev] {
				return pathError("stat", p, err)
			}
			done[is.Dev] = true
			return opened(a, func(a at, fd int) error {
				var of unix.Statfs_t
				if err := unix.Fstatfs(fd, &of); err != nil {
					return pathError("stat", p, err)
				}
				enough = enough && slices.Contains(wholes, of.Type)
				return a.change("syncfs", func() error { return unix.Syncfs(fd) })
			})
		})
		if err != nil && !isUnsafe(err) {
			return false, err
		}
	}
	return enough, nil
}

// eachIn opens a directory, if it is there; links are followed.
func (t *tree) eachIn(dir string, do func(a at, fd int) error) error {
	return within(t, dir, func(a at) error { return opened(a, do) })
}

// within is a directory itself as a place, if it is there; links are followed.
func within(t *tree, dir string, do func(a at) error) error {
	d, err := t.below.Dir(dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	return do(at{root: t, dir: d.FD, name: ".", path: dir, holder: d.Holder, shared: d.Shared})
}

// opened opens a directory.
func opened(a at, do func(a at, fd int) error) error {
	fd, err := a.open(unix.O_RDONLY | unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	return do(a, fd)
}

// isUnsafe tells that a path is one that a user led elsewhere: nothing of the daemon's is to be found by it.
func isUnsafe(err error) bool { return errors.As(err, new(*host.UnsafePathError)) }

// syncEach syncs files and directories side by side. What is a link, or gone, is durable with the directory around it. What a user
// moved away is that user's loss.
func syncEach(t *tree, paths []string) error {
	workers := min(atOnce, len(paths))
	if t.trap != nil {
		workers = min(1, len(paths)) // in an order
	}
	todo, bad := make(chan string), make(chan error, workers)
	for range workers {
		go func() {
			var all error
			for p := range todo {
				if all == nil {
					all = syncOne(t, p)
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

func syncOne(t *tree, p string) error {
	a, err := t.at(p)
	if gone(err) || isUnsafe(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer a.close()
	fd, err := a.open(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY)
	switch {
	case gone(err), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO):
		return nil
	case errors.Is(err, fs.ErrPermission) && !t.privileged:
		return nil // a simulated host's, who may not even read it
	case err != nil:
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	return a.sync(fd)
}

// syncDir makes what a directory names durable.
func syncDir(t *tree, dir string) error {
	return t.eachIn(dir, func(a at, fd int) error { return a.sync(fd) })
}

// Resume implements host.Disk. Files that wait for their rename are known by their names, which no config may use.
func (r *Root) Resume(_ context.Context, steps []host.Step) error {
	dirs := map[string]bool{path.Dir(host.PasswdPath): true, host.UnitDir: true}
	for _, s := range steps {
		if s.IsPath() {
			r.changed.add(s.Target)
			dirs[path.Dir(s.Target)] = true
		}
	}
	pulls, err := r.list(host.UnitDir)
	for _, name := range pulls {
		if path.Ext(name) == ".wants" || path.Ext(name) == ".requires" || path.Ext(name) == ".upholds" {
			dirs[path.Join(host.UnitDir, name)] = true
		}
	}
	bad := []error{err}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		r.changed.add(path.Join(dir, "x"))
		bad = append(bad, tidy(r, dir))
	}
	for _, p := range []string{host.PasswdPath, host.GroupPath, host.ShadowPath} {
		r.changed.add(p)
	}
	r.changed.more()
	return errors.Join(bad...)
}

// tidy removes what waits for a rename that nobody will do.
func tidy(r *Root, dir string) error {
	names, err := r.list(dir)
	if isUnsafe(err) {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, host.NewSuffix) {
			err = errors.Join(err, r.Remove(path.Join(dir, name)))
		}
	}
	return err
}
