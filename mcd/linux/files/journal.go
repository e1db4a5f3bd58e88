package files

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// privateFile is a file that only root may read.
var privateFile = host.Entry{Kind: host.File, Mode: 0o600}

// MkdirAll creates a directory, and the directories above it that do not exist.
func (r *Root) MkdirAll(dir string) error { return mkdirAll(r.disk, dir) }

// mkdirAll is MkdirAll. Only root may read the daemon's state directories.
func mkdirAll(d *disk, dir string) error {
	is, err := d.Stat(dir)
	if err != nil || is.Kind == host.Dir || is.Kind == host.Link {
		return err
	}
	if parent := path.Dir(dir); parent != "/" {
		if err := mkdirAll(d, parent); err != nil {
			return err
		}
	}
	want := host.Entry{Kind: host.Dir, Mode: 0o755}
	if dir == host.StateDir || path.Dir(dir) == host.StateDir {
		want.Mode = 0o700
	}
	return d.Mkdir(dir, want)
}

// makeStateDir creates the daemon's state directory. The directory is durable when makeStateDir returns, because the
// files in it must be durable.
func makeStateDir(d *disk) error {
	if is, err := d.Stat(host.StateDir); err != nil || is.Kind != host.Absent {
		return err
	}
	if err := mkdirAll(d, host.StateDir); err != nil || !d.batching {
		return err
	}
	for dir := path.Dir(host.StateDir); ; dir = path.Dir(dir) {
		if err := syncDir(d.tree, dir); err != nil || dir == "/" {
			return err
		}
	}
}

// syncDir makes the names in a directory durable.
func syncDir(t *tree, dir string) error {
	return t.eachIn(dir, func(a openName, fd int) error { return a.sync(fd) })
}

// Journal is the journal of the current update, in one file. Journal implements host.Journal.
type Journal struct{ disk *disk }

// Journal returns the machine's journal.
func (r *Root) Journal() Journal { return Journal{r.disk} }

const journalPath = host.StateDir + "/journal.json"

// Load implements host.Journal.
func (j Journal) Load() (*host.Record, error) {
	text, err := readOwn(j.disk.tree, journalPath)
	if IsAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rec host.Record
	if err := json.Unmarshal(text, &rec); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; compare the node with its config, then remove the file", journalPath,
			err)
	}
	return &rec, nil
}

// Save implements host.Journal.
func (j Journal) Save(rec host.Record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := makeStateDir(j.disk); err != nil {
		return err
	}
	return j.disk.write(journalPath, privateFile, text, false)
}

// Clear implements host.Journal.
func (j Journal) Clear() error { return j.disk.remove(journalPath, false) }

// List returns the names in a directory, sorted. A directory that does not exist has none.
func (t *tree) List(dir string) (names []string, _ error) {
	err := t.eachIn(dir, func(_ openName, fd int) error {
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
	if IsAbsent(err) {
		return nil, nil
	}
	return names, err
}
