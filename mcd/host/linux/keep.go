package linux

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// private is the state directory and what is in it: for root only.
var (
	privateDir  = host.Entry{Kind: host.Dir, Mode: 0o700}
	privateFile = host.Entry{Kind: host.File, Mode: 0o600}
)

// mkdirs makes a directory for root only, and what is missing above it.
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
	want := privateDir
	if !inState(dir) {
		want.Mode = 0o755
	}
	return r.Mkdir(dir, want)
}

// Lock keeps a second daemon from acting on the same machine: two that share one journal would undo each other's work.
// It holds until Close or the end of the process.
func (r *Root) Lock() error {
	if err := r.mkdirs(host.StateDir); err != nil {
		return err
	}
	at, err := r.resolve(host.StateDir + "/lock")
	if err != nil {
		return err
	}
	f, err := r.root.OpenFile(at, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("locking the machine: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close() //nolint:errcheck,gosec // nothing was written
		return fmt.Errorf("locking %s/lock: %w; another machine-config-daemon serves this machine: stop it first", host.StateDir, err)
	}
	r.lock = f
	return nil
}

func inState(p string) bool { return p == host.StateDir || path.Dir(p) == host.StateDir }

// Journal is the update under way, in one file that is replaced whole. It implements host.Journal.
type Journal struct{ root *Root }

const journalPath = host.StateDir + "/journal.json"

// Load implements host.Journal.
func (j Journal) Load() (*host.Record, error) {
	text, err := j.root.Read(journalPath)
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
	if err := j.root.mkdirs(host.StateDir); err != nil {
		return err
	}
	return j.root.Write(journalPath, privateFile, text)
}

// Clear implements host.Journal.
func (j Journal) Clear() error { return j.root.Remove(journalPath) }

// Store keeps contents as files named by their digest. It implements host.Store.
type Store struct{ root *Root }

const storeDir = host.StateDir + "/contents"

// Put implements host.Store.
func (s Store) Put(contents []byte) (host.Digest, error) {
	d := host.DigestOf(contents)
	at := storeDir + "/" + string(d)
	if err := s.root.mkdirs(storeDir); err != nil {
		return "", err
	}
	return d, s.root.Write(at, privateFile, contents)
}

// Get implements host.Store. Contents that do not match their digest are an error: a disk has lied.
func (s Store) Get(d host.Digest) ([]byte, error) {
	contents, err := s.root.Read(storeDir + "/" + string(d))
	if err != nil {
		return nil, err
	}
	if host.DigestOf(contents) != d {
		return nil, fmt.Errorf("%s/%s is damaged: its contents do not match its name", storeDir, d)
	}
	return contents, nil
}

// Sweep implements host.Store.
func (s Store) Sweep() error {
	names, err := s.root.list(storeDir)
	if err != nil {
		return err
	}
	var bad []error
	for _, name := range names {
		bad = append(bad, s.root.Remove(storeDir+"/"+name))
	}
	return errors.Join(bad...)
}

// list names what is in a directory, in lexical order; nothing where there is none.
func (r *Root) list(dir string) ([]string, error) {
	at, err := r.resolve(path.Join(dir, "x"))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(r.root.FS(), path.Dir(at))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}
