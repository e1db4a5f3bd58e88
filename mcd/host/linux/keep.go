package linux

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// privateFile is for root only.
var privateFile = host.Entry{Kind: host.File, Mode: 0o600}

// mkdirs makes a directory, and what is missing above it; the daemon's state is for root only.
func (r *Root) mkdirs(dir string) error {
	is, err := r.Stat(dir)
	if err != nil || is.Kind == host.Dir || is.Kind == host.Link {
		return err
	}
	if parent := path.Dir(dir); parent != "/" {
		if err := r.mkdirs(parent); err != nil {
			return err
		}
	}
	want := host.Entry{Kind: host.Dir, Mode: 0o755}
	if dir == host.StateDir || path.Dir(dir) == host.StateDir {
		want.Mode = 0o700
	}
	return r.Mkdir(dir, want)
}

// stateDir makes the directory of the daemon's state, durably: what is in it shall not be lost with it.
func stateDir(r *Root) error {
	if is, err := r.Stat(host.StateDir); err != nil || is.Kind != host.Absent {
		return err
	}
	if err := r.mkdirs(host.StateDir); err != nil || !r.batching {
		return err
	}
	for dir := path.Dir(host.StateDir); ; dir = path.Dir(dir) {
		if err := syncDir(r.tree, dir); err != nil || dir == "/" {
			return err
		}
	}
}

// Lock keeps a second daemon from acting on the same machine: two that share one journal would undo each other's work.
// It holds until Close or the end of the process.
func (r *Root) Lock() error {
	if err := stateDir(r); err != nil {
		return err
	}
	a, err := r.at(host.StateDir + "/lock")
	if err != nil {
		return fmt.Errorf("locking the machine: %w", err)
	}
	defer a.close()
	fd, err := again(func() (int, error) {
		return unix.Openat(a.dir, a.name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return fmt.Errorf("locking the machine: %w", pathError("open", a.path, err))
	}
	f := os.NewFile(uintptr(fd), a.path) //nolint:gosec // a descriptor is positive
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close() //nolint:errcheck,gosec // nothing was written
		return fmt.Errorf("locking %s/lock: %w; another machine-config-daemon serves this machine: stop it first", host.StateDir, err)
	}
	r.lock = f
	return nil
}

// Journal is the update under way, in one file that is replaced whole. It implements host.Journal.
type Journal struct{ root *Root }

const journalPath = host.StateDir + "/journal.json"

// Load implements host.Journal.
func (j Journal) Load() (*host.Record, error) {
	text, err := readOwn(j.root.tree, journalPath)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rec host.Record
	if err := json.Unmarshal(text, &rec); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; compare the node with its config, then remove the file", journalPath, err)
	}
	return &rec, nil
}

// Save implements host.Journal.
func (j Journal) Save(rec host.Record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := stateDir(j.root); err != nil {
		return err
	}
	return j.root.write(journalPath, privateFile, text, false)
}

// Clear implements host.Journal.
func (j Journal) Clear() error { return j.root.remove(journalPath, false) }

// list names what is in a directory, in lexical order; nothing where there is none.
func (t *tree) list(dir string) (names []string, _ error) {
	err := t.eachIn(dir, func(_ at, fd int) error {
		twin, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return pathError("open", dir, err)
		}
		f := os.NewFile(uintptr(twin), dir)
		defer f.Close() //nolint:errcheck // only read
		names, err = f.Readdirnames(-1)
		return err
	})
	slices.Sort(names)
	if gone(err) {
		return nil, nil
	}
	return names, err
}
