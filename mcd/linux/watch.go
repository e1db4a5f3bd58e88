package linux

import (
	"encoding/binary"
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

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"golang.org/x/sys/unix"
)

// event is one inotify event: about a name in a directory, or about the directory itself.
type event struct {
	wd   int32
	mask uint32
	name string
}

// watchedEvents are the watched inotify events. Writes count when the file is closed, so that a program that writes a
// log line by line causes no signals. The periodic scan finds changes by a program that never closes its file.
const watchedEvents = unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM |
	unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW | unix.IN_EXCL_UNLINK

// structureEvents are inotify events after which a path may lead to other directories.
const structureEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_IGNORED | unix.IN_UNMOUNT

// sessionsDir has one file for each session of logind.
const sessionsDir = "/run/systemd/sessions"

// Watcher reports that another program may have changed watched paths. With inotify, a Watcher watches every directory
// of a path for the next name of the path. So the directories may be missing, renamed or created later.
type Watcher struct {
	root *files.Root
	// in is the file from which the watcher reads events. Closing it ends the watcher.
	in *os.File
	// settle is how long the watcher collects changes before one signal. gap is the minimum time between two signals,
	// so that a file with permanent writes does not cause permanent scans.
	settle, gap time.Duration

	mu sync.Mutex
	// paths are the watched paths.
	paths []string
	// names are the watched names, by the watch descriptor of their directory; "*" is any name.
	names map[int32]map[string]bool
	// due is the timer of the next signal, if one is due. last is the time of the last signal.
	due  *time.Timer
	last time.Time

	signal   chan struct{}
	accessed atomic.Bool
	done     chan struct{}
}

// NewWatcher returns a watcher of the machine's files. The caller closes it.
func NewWatcher(r *files.Root) (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("opening inotify: %w; see fs.inotify.max_user_instances", err)
	}
	w := &Watcher{
		root: r, in: os.NewFile(uintptr(fd), "inotify"), settle: 100 * time.Millisecond, gap: 2 * time.Second,
		names:  map[int32]map[string]bool{},
		signal: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := w.rebuild(); err != nil {
		w.in.Close() //nolint:errcheck,gosec // nothing was read
		return nil, err
	}
	w.checkSessions()
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
func (w *Watcher) Modified(p string) time.Time { return w.root.Modified(p) }

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

// rebuild watches the present directories of all paths, and stops watching all other directories. rebuild watches a
// directory before it reads its entries, so that it misses no new entry.
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

// follow resolves a path as the machine would, including links, and watches each directory for the next name. If a
// name is missing, the watch reports its creation.
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
		kind, to, err := w.root.Lookup(next)
		switch {
		case files.IsAbsent(err), files.IsUnsafe(err):
			return nil
		case err != nil:
			return fmt.Errorf("looking at %s: %w", next, err)
		case kind == host.Dir:
			done, todo = next, todo[1:]
			continue
		case kind != host.Link:
			return nil // The path is a file, so nothing exists below it.
		}
		if hops++; hops > host.MaxLinks {
			return nil // The link leads to no existing path.
		}
		done, todo = "/", append(strings.Split(strings.TrimPrefix(host.LinkTarget(next, to), "/"), "/"), todo[1:]...)
		if todo[0] == "" {
			todo = todo[1:]
		}
	}
	return nil
}

// add watches a directory for a name. The path of the directory has no links. If the directory was removed meanwhile,
// the watch of its parent reports the removal.
func (w *Watcher) add(dir, name string) error {
	wd := -1
	conn, err := w.in.SyscallConn()
	if err == nil {
		err = w.root.WithDir(dir, func(opened int) (bad error) {
			held := "/proc/self/fd/" + strconv.Itoa(opened) + "/." // No user can redirect this path.
			closed := conn.Control(func(fd uintptr) { wd, bad = unix.InotifyAddWatch(int(fd), held, watchedEvents) })
			return errors.Join(bad, closed)
		})
	}
	switch {
	case err == nil && wd < 0, files.IsAbsent(err),
		files.IsUnsafe(err): // A drift scan of the path reports this refusal.
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

// forget stops watching a directory. A removed directory has no watch any more.
func (w *Watcher) forget(wd int32) {
	if conn, err := w.in.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) {
			_, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) //nolint:gosec // the kernel's own number
		})
	}
}

// listen converts the kernel's events into at most one signal for each batch.
func (w *Watcher) listen() {
	defer close(w.done)
	var buf [64 << 10]byte
	for {
		n, err := w.in.Read(buf[:])
		if err != nil {
			return // The watcher was closed.
		}
		disturbed, moved, session := w.classify(eventsIn(buf[:n]))
		if moved {
			_ = w.rebuild() // An error is ignored, because the periodic scan covers paths that cannot be watched now.
			session = true  // A session may have started before its directory was watched.
		}
		if session && w.checkSessions() || disturbed {
			w.announce()
		}
	}
}

// eventsIn parses the result of one read: whole events, each a fixed header and a name that is padded with zeros.
func eventsIn(buf []byte) (events []event) {
	for len(buf) >= unix.SizeofInotifyEvent {
		e := event{
			wd:   int32(binary.NativeEndian.Uint32(buf)), //nolint:gosec // the kernel's own type
			mask: binary.NativeEndian.Uint32(buf[4:]),
		}
		length := int(binary.NativeEndian.Uint32(buf[12:]))
		buf = buf[unix.SizeofInotifyEvent:]
		if length > len(buf) {
			return events
		}
		e.name = strings.TrimRight(string(buf[:length]), "\x00")
		buf = buf[length:]
		events = append(events, e)
	}
	return events
}

// announce schedules one signal for all changes until the timer fires.
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

// classify reports whether a watched path may have changed, whether its directories may have changed, and whether a
// session started.
func (w *Watcher) classify(events []event) (disturbed, moved, session bool) {
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
		case e.name == "" && e.mask&structureEvents != 0, names[e.name]:
			disturbed = true
			moved = moved || e.mask&structureEvents != 0
		}
	}
	return disturbed, moved, session
}

// checkSessions checks whether a user is logged in over SSH. checkSessions returns true only once.
func (w *Watcher) checkSessions() bool {
	if w.accessed.Load() {
		return false
	}
	names, err := w.root.List(sessionsDir)
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
