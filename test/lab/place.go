package lab

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// place is a directory for one host or network, with a list of what was made for it outside of that directory. The list
// is written before anything is made, and the place is locked while its test lives: so the next run can undo what a
// killed one left.
type place struct {
	dir string
	// id is short, and part of the names of namespaces and cgroups.
	id   string
	lock *os.File
	list *os.File
}

// newPlace sweeps what killed runs left, and makes a place that is undone when the test ends.
func newPlace(t testing.TB) *place {
	t.Helper()
	cache, err := cacheDir()
	if err != nil {
		t.Fatalf("finding the lab's cache: %v", err)
	}
	places := filepath.Join(cache, "run")
	if err := os.MkdirAll(places, 0o755); err != nil {
		t.Fatal(err)
	}
	// Nobody sweeps a place that was made and is not yet locked.
	making, err := locked(filepath.Join(cache, "run.lock"), unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	defer making.Close() //nolint:errcheck // closing is unlocking
	if err := sweep(places); err != nil {
		t.Fatalf("sweeping what an earlier run left behind: %v", err)
	}
	var random [4]byte
	rand.Read(random[:]) //nolint:errcheck,gosec // it never fails
	p := &place{id: hex.EncodeToString(random[:])}
	p.dir = filepath.Join(places, p.id)
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if p.lock, err = locked(filepath.Join(p.dir, "lock"), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if p.list, err = os.Create(filepath.Join(p.dir, "list")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.list.Close(), undo(p.dir), p.lock.Close()); err != nil {
			t.Errorf("cleaning up %s: %v", p.dir, err)
		}
	})
	return p
}

// note writes down what is about to be made: a mount, path, netns or cgroup.
func (p *place) note(kind, what string) error {
	_, err := fmt.Fprintf(p.list, "%s %s\n", kind, what)
	return err
}

// sweep undoes the places that nobody holds.
func sweep(places string) error {
	dirs, err := os.ReadDir(places)
	if err != nil {
		return err
	}
	var failed []error
	for _, d := range dirs {
		dir := filepath.Join(places, d.Name())
		lock, err := locked(filepath.Join(dir, "lock"), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(undo(dir), lock.Close())
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// undo takes away what a place's list has, the latest first, and the place.
func undo(dir string) error {
	file, err := os.Open(filepath.Join(dir, "list"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var lines []string
	if err == nil {
		for scanner := bufio.NewScanner(file); scanner.Scan(); {
			lines = append(lines, scanner.Text())
		}
		file.Close() //nolint:errcheck,gosec // it was only read
	}
	// The processes that a killed run left keep its cgroups of version 1, which were made last.
	for _, line := range lines {
		if cgroup, is := strings.CutPrefix(line, "cgroup "); is {
			if err := killAll(cgroup); err != nil {
				return fmt.Errorf("ending the processes of %s: %w", cgroup, err)
			}
		}
	}
	for _, line := range slices.Backward(lines) {
		kind, what, _ := strings.Cut(line, " ")
		if err := take[kind](what); err != nil {
			return fmt.Errorf("taking away %s: %w", line, err)
		}
	}
	return os.RemoveAll(dir)
}

// take undoes one thing of a kind; one that is gone already is no error.
var take = map[string]func(string) error{
	"mount": func(at string) error {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
			!errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil
	},
	"path": func(at string) error {
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	},
	"netns": func(name string) error {
		if _, err := os.Lstat("/run/netns/" + name); err != nil {
			return nil //nolint:nilerr // it is gone
		}
		return run("ip", "netns", "del", name)
	},
	"cgroup": func(dir string) error {
		if err := killAll(dir); err != nil {
			return err
		}
		return removeCgroup(dir)
	},
	"cgroup1": removeCgroup, // of version 1: its processes are in one of version 2 as well, which ends them
}

// killAll ends every process below a cgroup at once, and waits until they are gone.
func killAll(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat(dir); err != nil {
				return nil //nolint:nilerr // it is gone
			}
			return errors.New("there is no cgroup.kill: it needs Linux 5.14 or later")
		}
		return err
	}
	events, err := os.Open(filepath.Join(dir, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close() //nolint:errcheck // it is only read
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		text := make([]byte, 4096)
		n, err := events.ReadAt(text, 0)
		if n == 0 && err != nil {
			return err
		}
		if strings.Contains(string(text[:n]), "populated 0") {
			return nil
		}
		// The kernel wakes whoever polls the file when it changes.
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}, 1000); err != nil &&
			!errors.Is(err, unix.EINTR) { //nolint:gosec // a file descriptor is small
			return err
		}
	}
	return errors.New("processes did not end within a minute")
}

// removeCgroup removes an empty cgroup and those below it.
func removeCgroup(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, at)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		if err := rmdirWhenFree(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing cgroup %s: %w", d, err)
		}
	}
	return err
}

// rmdirWhenFree removes a cgroup. In cgroup v1, a process that was killed stays in its cgroup for a moment, and no
// event says when it has left.
func rmdirWhenFree(dir string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		if err := unix.Rmdir(dir); !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}

// cgroups is where the unified hierarchy is mounted.
func cgroups() (string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			return fields[4], nil
		}
	}
	return "", errors.New("none in /proc/self/mountinfo")
}

// run is a program whose output matters only where it fails.
func run(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, tail(out))
	}
	return nil
}
