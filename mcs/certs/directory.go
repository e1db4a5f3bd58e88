package certs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// directory is a place on a disk. Where it is empty, or has our CA's key, it is ours. One that has tls.crt and tls.key but
// no ca.key is somebody else's: it is read and never written.
type directory struct {
	dir   string
	names []string
}

// OpenCertificates makes or reads the certificates of a directory. Names are the host names and addresses that machines
// ask for; this host's name and the loopback addresses are added.
func OpenCertificates(dir string, names []string, log *slog.Logger) (*Certificates, error) {
	if host, err := os.Hostname(); err == nil {
		names = append(slices.Clone(names), host)
	}
	names, err := checkNames(names)
	if err != nil {
		return nil, err
	}
	c := &Certificates{place: directory{dir, names}, log: log}
	return c, c.Refresh(context.Background(), time.Now())
}

func (d directory) look(_ context.Context, now time.Time) (*shown, error) {
	own, err := d.owned()
	if err != nil {
		return nil, err
	}
	if own {
		if err := d.keep(now); err != nil {
			return nil, fmt.Errorf("keeping certificates in %s: %w", d.dir, err)
		}
	}
	return d.show(own)
}

// show reads what is there to show.
func (d directory) show(own bool) (*shown, error) {
	m, err := d.material()
	if err != nil {
		return nil, err
	}
	return newShown(m, d.dir, own)
}

// keep brings our own CA and certificate up to date.
func (d directory) keep(now time.Time) error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	have, err := d.material()
	if err != nil {
		return err
	}
	want, err := have.renewed(d.names, now)
	if err != nil {
		return err
	}
	return d.write(want)
}

// material reads what is there.
func (d directory) material() (material, error) {
	var m material
	var errs [4]error
	m.ca, errs[0] = d.read(CAFile)
	m.caKey, errs[1] = d.read(CAKeyFile)
	m.cert, errs[2] = d.read(CertFile)
	m.key, errs[3] = d.read(CertKeyFile)
	return m, errors.Join(errs[:]...)
}

// write writes what differs: keys first, so that a certificate never lies there without its key. What is nil stays.
func (d directory) write(m material) error {
	for _, file := range []struct {
		name     string
		contents []byte
		mode     os.FileMode
	}{{CAKeyFile, m.caKey, 0o600}, {CAFile, m.ca, 0o644}, {CertKeyFile, m.key, 0o600}, {CertFile, m.cert, 0o644}} {
		if file.contents == nil {
			continue
		}
		if err := writeFile(d.path(file.name), file.contents, file.mode); err != nil {
			return err
		}
	}
	return nil
}

// owned tells whether the directory is ours to write: it has our CA's key, or nothing yet.
func (d directory) owned() (bool, error) {
	var found []string
	for _, name := range []string{CAKeyFile, CertFile, CertKeyFile} {
		_, err := os.Stat(d.path(name))
		switch {
		case err == nil:
			found = append(found, name)
		case !errors.Is(err, fs.ErrNotExist):
			return false, fmt.Errorf("looking for certificates: %w", err)
		}
	}
	switch {
	case len(found) == 0 || found[0] == CAKeyFile:
		return true, nil
	case len(found) == 2:
		return false, nil
	}
	return false, fmt.Errorf("%s has %s alone: put %s and %s there, or empty the directory to have them made", d.dir, found[0], CertFile, CertKeyFile)
}

// read is a file's contents, nil where it is not there.
func (d directory) read(name string) ([]byte, error) {
	raw, err := os.ReadFile(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

func (d directory) path(name string) string { return filepath.Join(d.dir, name) }

// writeFile writes a file whole or not at all, and leaves one alone that says the same.
func writeFile(file string, contents []byte, mode os.FileMode) (err error) {
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, contents) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(contents)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
