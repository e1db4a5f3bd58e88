package linux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// watched is a machine's directory with a watcher that tells at once.
type watched struct {
	t   *testing.T
	dir string
	*Watcher
}

func newWatched(t *testing.T, paths ...string) watched {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"etc/systemd/system", "etc/app/conf.d", "run/systemd/sessions", "var/home/core"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w := watched{t, dir, nil}
	w.put("/etc/app/conf.d/a.conf", "a")
	w.must(os.Symlink("/var/home", w.at("/home")))
	root, err := files.Open(dir)
	w.must(err)
	t.Cleanup(func() { root.Close() })
	w.Watcher, err = NewWatcher(root)
	w.must(err)
	w.pace(0)
	t.Cleanup(func() { w.must(w.Close()) })
	w.must(w.Watch(paths))
	return w
}

// pace sets how long changes are collected before they are told.
func (w watched) pace(settle time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle, w.gap = settle, 0
}

func (w watched) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w watched) at(p string) string { return filepath.Join(w.dir, p) }

func (w watched) put(p, text string) {
	w.t.Helper()
	w.must(os.MkdirAll(filepath.Dir(w.at(p)), 0o755))
	w.must(os.WriteFile(w.at(p), []byte(text), 0o644))
}

// heard waits for a signal, and for the quiet after it.
func (w watched) heard(what string) {
	w.t.Helper()
	select {
	case <-w.Disturbed():
	case <-time.After(time.Minute):
		w.t.Fatalf("nobody told of: %s", what)
	}
	for quiet := false; !quiet; {
		select {
		case <-w.Disturbed():
		case <-time.After(50 * time.Millisecond):
			quiet = true
		}
	}
}

const app = "/etc/app/conf.d/a.conf"

func TestAWatcherTellsOf(t *testing.T) {
	for _, c := range []struct {
		says string
		do   func(w watched)
	}{
		{"a file that is written in place", func(w watched) { w.put(app, "b") }},
		{"a file that another one is renamed over", func(w watched) {
			w.put("/etc/app/new", "b")
			w.must(os.Rename(w.at("/etc/app/new"), w.at(app)))
		}},
		{"a file that is renamed away", func(w watched) { w.must(os.Rename(w.at(app), w.at("/etc/away"))) }},
		{"a file that is deleted", func(w watched) { w.must(os.Remove(w.at(app))) }},
		{"a file whose mode changes", func(w watched) { w.must(os.Chmod(w.at(app), 0o600)) }},
		{"a file that is only touched: whether it differs is seen by who looks", func(w watched) {
			w.must(os.Chtimes(w.at(app), time.Unix(1, 0), time.Unix(1, 0)))
		}},
		{"a link in its place", func(w watched) {
			w.must(os.Remove(w.at(app)))
			w.must(os.Symlink("/dev/null", w.at(app)))
		}},
		{"its directory's mode", func(w watched) { w.must(os.Chmod(w.at("/etc/app/conf.d"), 0o700)) }},
		{"a directory above it that is renamed", func(w watched) { w.must(os.Rename(w.at("/etc/app"), w.at("/etc/gone"))) }},
		{"a directory above it that is deleted with all in it", func(w watched) { w.must(os.RemoveAll(w.at("/etc/app"))) }},
	} {
		t.Run(c.says, func(t *testing.T) {
			w := newWatched(t, app, "/etc/app/conf.d")
			c.do(w)
			w.heard(c.says)
		})
	}
}

func TestAWatcherFollowsWhatComesAndGoes(t *testing.T) {
	w := newWatched(t, app, "/etc/not/yet/there.conf", "/home/core/.ssh/authorized_keys.d/ignition",
		"/etc/systemd/system/a.target.wants/b.service")

	w.must(os.Rename(w.at("/etc/app"), w.at("/etc/gone")))
	w.heard("the directory is renamed")
	w.put(app, "anew")
	w.heard("the directory comes back with the file")
	w.put(app, "again")
	w.heard("the file in the directory that came back is written")

	w.must(os.Mkdir(w.at("/etc/not"), 0o755))
	w.heard("the nearest ancestor comes")
	w.must(os.Mkdir(w.at("/etc/not/yet"), 0o755))
	w.heard("the next ancestor comes")
	w.put("/etc/not/yet/there.conf", "x")
	w.heard("what was not there comes")

	w.put("/var/home/core/.ssh/authorized_keys.d/ignition", "key")
	w.heard("a file comes where a link in the way to its path leads within the machine")

	w.must(os.Mkdir(w.at("/etc/systemd/system/a.target.wants"), 0o755))
	w.heard("the directory of a unit's link comes")
	w.must(os.Symlink("/usr/lib/systemd/system/b.service", w.at("/etc/systemd/system/a.target.wants/b.service")))
	w.heard("a unit is enabled")

	w.must(w.Watch([]string{"/etc/other"}))
	w.put("/etc/other", "x")
	w.heard("another path is watched instead")
}

func TestAWatcherIsNotWokenByWhatNobodyWatches(t *testing.T) {
	w := newWatched(t, app)
	other, err := NewWatcher(w.root)
	w.must(err)
	defer other.Close()
	fence := watched{t, w.dir, other}
	fence.pace(0)
	fence.must(fence.Watch([]string{"/etc/app/conf.d/sibling"}))
	w.put("/etc/app/conf.d/sibling", "x")
	w.put("/etc/elsewhere", "x")
	fence.heard("the sibling")
	select {
	case <-w.Disturbed():
		t.Error("it was woken")
	default:
	}
}

func TestManyChangesAreOneSignal(t *testing.T) {
	w := newWatched(t, app)
	w.pace(time.Hour)
	w.announce()
	w.mu.Lock()
	first := w.due
	w.mu.Unlock()
	for range 200 {
		w.announce()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due != first || len(w.signal) > 0 {
		t.Error("more than one signal waits")
	}
}

func TestWhenTheKernelLosesCountEverythingIsLookedAt(t *testing.T) {
	w := newWatched(t)
	overflow := event{wd: -1, mask: 0x4000}
	if disturbed, moved, session := w.classify([]event{overflow}); !disturbed || !moved || !session {
		t.Error(disturbed, moved, session)
	}
}

func TestALoginOverSSHIsSeen(t *testing.T) {
	session := func(service string) string {
		return "UID=1000\nUSER=core\nREMOTE=1\nSERVICE=" + service + "\nSTATE=active\n"
	}
	w := newWatched(t)
	w.put("/run/systemd/sessions/.#1abc", session("login"))
	w.must(os.Rename(w.at("/run/systemd/sessions/.#1abc"), w.at("/run/systemd/sessions/1")))
	w.put("/run/systemd/sessions/.#2abc", session("sshd"))
	w.must(os.Rename(w.at("/run/systemd/sessions/.#2abc"), w.at("/run/systemd/sessions/2")))
	w.heard("a session of sshd")
	if !w.Accessed() {
		t.Error("it is not remembered")
	}

	w.must(os.Remove(w.at("/run/systemd/sessions/2")))
	if !w.Accessed() {
		t.Error("it is forgotten with the session")
	}

	late, err := NewWatcher(w.root)
	w.must(err)
	defer late.Close()
	if late.Accessed() {
		t.Error("a console's session counts")
	}
	w.put("/run/systemd/sessions/3", session("sshd"))
	again, err := NewWatcher(w.root)
	w.must(err)
	defer again.Close()
	if !again.Accessed() {
		t.Error("a session that was there before the daemon is not seen")
	}
}

func TestTheSessionsMayComeLater(t *testing.T) {
	w := newWatched(t)
	w.must(os.RemoveAll(w.at("/run/systemd")))
	w.put("/run/systemd/sessions/4", "SERVICE=sshd\n")
	for !w.Accessed() {
		w.heard("the directories, then the session")
	}
}

func TestModified(t *testing.T) {
	w := newWatched(t)
	w.must(os.Chtimes(w.at(app), time.Unix(5, 0), time.Unix(7, 0)))
	if at := w.Modified(app); at.Unix() != 7 {
		t.Error(at)
	}
	if at := w.Modified("/nowhere/at/all"); !at.IsZero() {
		t.Error(at)
	}
}

func TestWhatCannotBeWatchedIsSaid(t *testing.T) {
	w := newWatched(t)
	closed, err := NewWatcher(w.root)
	w.must(err)
	w.must(closed.Close())
	if err := closed.Watch([]string{"/etc/x"}); err == nil || !strings.Contains(err.Error(), "watching /") {
		t.Error(err)
	}
}
