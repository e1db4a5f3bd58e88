package linux

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// interesting is what the kernel tells about. Writes count when the file is closed, so that a file that is written line by
// line, such as a log beside a watched path, wakes nobody. Who keeps a file open and writes is found by the slow timer.
const interesting = unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW | unix.IN_EXCL_UNLINK

// structural events change what a path stands in.
const structural = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_IGNORED | unix.IN_UNMOUNT

// sessionsDir has one file for each session of logind.
const sessionsDir = "/run/systemd/sessions"

// Watcher tells when somebody may have changed watched paths, by the kernel's inotify: every directory on the way to a path
// is watched for the next name on it, so that it does not matter which of them are there, are renamed, or come back.
type Watcher struct {
	root *Root
	// in reads events; it is closed to end.
	in *os.File
	// settle is how long one change may be followed by others before they are told together, and gap the least time from
	// one signal to the next, so that a file that is written all the time is not looked at all the time.
	settle, gap time.Duration

	mu sync.Mutex
	// paths that are watched.
	paths []string
	// names that matter, by the kernel's number for the directory that holds them; "*" is any.
	names map[int32]map[string]bool
	// due is when the next signal comes, while one is awaited; last is when one came.
	due  *time.Timer
	last time.Time

	signal   chan struct{}
	accessed atomic.Bool
	done     chan struct{}
}

// NewWatcher opens a watcher of the machine whose files the root has. Close it when done.
func NewWatcher(r *Root) (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("opening inotify: %w; see fs.inotify.max_user_instances", err)
	}
	w := &Watcher{
		root: r, in: os.NewFile(uintptr(fd), "inotify"), settle: 100 * time.Millisecond, gap: 2 * time.Second, names: map[int32]map[string]bool{},
		signal: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := w.rebuild(); err != nil {
		w.in.Close() //nolint:errcheck,gosec // nothing was read
		return nil, err
	}
	w.sessions()
	go w.listen()
	return w, nil
}

// Close ends the watcher.
func (w *Watcher) Close() error {
	err := w.in.Close()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due != nil {
		w.due.Stop()
	}
	return err
}

// Disturbed implements agent.Watcher.
func (w *Watcher) Disturbed() <-chan struct{} { return w.signal }

// Accessed implements agent.Watcher.
func (w *Watcher) Accessed() bool { return w.accessed.Load() }

// Modified implements agent.Watcher.
func (w *Watcher) Modified(p string) time.Time {
	a, err := w.root.at(p)
	if err != nil {
		return time.Time{}
	}
	defer a.close()
	is, err := a.stat()
	if err != nil {
		return time.Time{}
	}
	return time.Unix(is.Mtim.Unix())
}

// Watch implements agent.Watcher.
func (w *Watcher) Watch(paths []string) error {
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	w.mu.Lock()
	same := slices.Equal(paths, w.paths)
	w.paths = paths
	w.mu.Unlock()
	if same {
		return nil
	}
	return w.rebuild()
}

// rebuild watches what stands on the way to the paths now, and nothing else. Each directory is watched before its members
// are looked at, so that what comes to be meanwhile is told.
func (w *Watcher) rebuild() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.names
	w.names = map[int32]map[string]bool{}
	var bad []error
	for _, p := range append(slices.Clone(w.paths), sessionsDir+"/*") {
		if err := w.follow(p); err != nil {
			bad = append(bad, err)
		}
	}
	for wd := range maps.Keys(old) {
		if _, used := w.names[wd]; !used {
			w.forget(wd)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("watching %d paths, of which %d could not be: %w", len(w.paths), len(bad), bad[0])
	}
	return nil
}

// follow walks the way to a path as the machine would, links included, and watches each directory on it for the next name.
// Where the way ends, what is missing is waited for.
func (w *Watcher) follow(p string) error {
	done, todo := "/", strings.Split(strings.TrimPrefix(path.Clean(p), "/"), "/")
	for hops := 0; len(todo) > 0; {
		if err := w.add(done, todo[0]); err != nil {
			return err
		}
		if len(todo) == 1 {
			return nil
		}
		next := path.Join(done, todo[0])
		kind, to, err := w.root.look(next)
		switch {
		case gone(err), isUnsafe(err):
			return nil
		case err != nil:
			return fmt.Errorf("looking at %s: %w", next, err)
		case kind == host.Dir:
			done, todo = next, todo[1:]
			continue
		case kind != host.Link:
			return nil // a file in the way: what is below it is not there
		}
		if hops++; hops > maxHops {
			return nil // it leads nowhere
		}
		if !path.IsAbs(to) {
			to = path.Join(done, to)
		}
		done, todo = "/", append(strings.Split(strings.TrimPrefix(path.Clean(to), "/"), "/"), todo[1:]...)
		if todo[0] == "" {
			todo = todo[1:]
		}
	}
	return nil
}

// add watches a directory, which has no links on its way, for a name. A directory that is gone meanwhile was told of by the
// one above it.
func (w *Watcher) add(dir, name string) error {
	wd := -1
	conn, err := w.in.SyscallConn()
	if err == nil {
		err = within(w.root.tree, dir, func(a at) (bad error) {
			held := "/proc/self/fd/" + strconv.Itoa(a.dir) + "/." // inotify takes paths alone, and this one nobody can lead elsewhere
			closed := conn.Control(func(fd uintptr) { wd, bad = unix.InotifyAddWatch(int(fd), held, interesting) })
			return errors.Join(bad, closed)
		})
	}
	switch {
	case err == nil && wd < 0, gone(err), isUnsafe(err): // what is refused is found by who looks at the path
		return nil
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("watching %s: %w: raise fs.inotify.max_user_watches", dir, err)
	case err != nil:
		return fmt.Errorf("watching %s: %w", dir, err)
	}
	if w.names[int32(wd)] == nil { //nolint:gosec // the kernel's numbers are 32 bits wide
		w.names[int32(wd)] = map[string]bool{} //nolint:gosec // as above
	}
	w.names[int32(wd)][name] = true //nolint:gosec // as above
	return nil
}

// forget stops to watch a directory; one that is gone is forgotten already.
func (w *Watcher) forget(wd int32) {
	if conn, err := w.in.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) {
			_, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) //nolint:gosec // the kernel's own number
		})
	}
}

// listen turns the kernel's events into at most one signal for each batch of them.
func (w *Watcher) listen() {
	defer close(w.done)
	var buf [64 << 10]byte
	for {
		n, err := w.in.Read(buf[:])
		if err != nil {
			return // closed
		}
		disturbed, moved, session := w.sort(eventsIn(buf[:n]))
		if moved {
			_ = w.rebuild() // what cannot be watched now is found by the slow timer
			session = true  // one that came before its directory was watched
		}
		if session && w.sessions() || disturbed {
			w.announce()
		}
	}
}

// announce sends one signal for all that happens until then.
func (w *Watcher) announce() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due != nil {
		return
	}
	w.due = time.AfterFunc(max(w.settle, w.gap-time.Since(w.last)), func() {
		w.mu.Lock()
		w.due, w.last = nil, time.Now()
		w.mu.Unlock()
		select {
		case w.signal <- struct{}{}:
		default:
		}
	})
}

// sort tells whether a watched path may be other than before, whether the directories on the way may be, and whether a
// session came.
func (w *Watcher) sort(events []event) (disturbed, moved, session bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		if e.mask&unix.IN_Q_OVERFLOW != 0 {
			return true, true, true
		}
		names, known := w.names[e.wd]
		switch {
		case !known:
		case names["*"] && e.name != "":
			session = true
		case e.name == "" && e.mask&structural != 0, names[e.name]:
			disturbed = true
			moved = moved || e.mask&structural != 0
		}
	}
	return disturbed, moved, session
}

// sessions looks whether somebody is logged in over SSH; it tells true once.
func (w *Watcher) sessions() bool {
	if w.accessed.Load() {
		return false
	}
	names, err := w.root.list(sessionsDir)
	if err != nil {
		return false
	}
	for _, name := range names {
		text, err := w.root.Read(path.Join(sessionsDir, name))
		if err == nil && slices.Contains(strings.Split(string(text), "\n"), "SERVICE=sshd") {
			return w.accessed.CompareAndSwap(false, true)
		}
	}
	return false
}
