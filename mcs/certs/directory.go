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

// dirStore stores certificates in a directory. The server manages it if it is empty or has the CA's key. With tls.crt
// and tls.key but without ca.key it is a user's, and the server never writes it.
type dirStore struct {
	dir   string
	names []string
}

// OpenCertificates creates or reads the certificates in a directory. names are the hosts and addresses that machines
// connect to, besides this host's name and the loopback addresses.
func OpenCertificates(dir string, names []string, log *slog.Logger) (*Certificates, error) {
	if host, err := os.Hostname(); err == nil {
		names = append(slices.Clone(names), host)
	}
	names, err := checkNames(names)
	if err != nil {
		return nil, err
	}
	c := &Certificates{store: dirStore{dir, names}, log: log}
	return c, c.Refresh(context.Background(), time.Now())
}

func (d dirStore) sync(_ context.Context, now time.Time) (*servingCert, error) {
	own, err := d.isManaged()
	if err != nil {
		return nil, err
	}
	if own {
		if err := d.update(now); err != nil {
			return nil, fmt.Errorf("updating certificates in %s: %w", d.dir, err)
		}
	}
	return d.servingCert(own)
}

func (d dirStore) servingCert(own bool) (*servingCert, error) {
	m, err := d.material()
	if err != nil {
		return nil, err
	}
	return newServingCert(m, d.dir, own)
}

func (d dirStore) update(now time.Time) error {
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

func (d dirStore) material() (material, error) {
	var m material
	var errs [4]error
	m.ca, errs[0] = d.read(CAFile)
	m.caKey, errs[1] = d.read(CAKeyFile)
	m.cert, errs[2] = d.read(CertFile)
	m.key, errs[3] = d.read(CertKeyFile)
	return m, errors.Join(errs[:]...)
}

// write writes changed files, keys first, so that there is never a certificate without its key. A nil content is no
// change.
func (d dirStore) write(m material) error {
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

// isManaged reports whether the directory has the CA's key, or is empty.
func (d dirStore) isManaged() (bool, error) {
	var found []string
	for _, name := range []string{CAKeyFile, CertFile, CertKeyFile} {
		_, err := os.Stat(d.path(name))
		switch {
		case err == nil:
			found = append(found, name)
		case !errors.Is(err, fs.ErrNotExist):
			return false, fmt.Errorf("reading certificates: %w", err)
		}
	}
	switch {
	case len(found) == 0 || found[0] == CAKeyFile:
		return true, nil
	case len(found) == 2:
		return false, nil
	}
	return false, fmt.Errorf("%s contains only %s: add %s and %s, or empty the directory to create them", d.dir,
		found[0], CertFile, CertKeyFile)
}

// read is nil if the file is missing.
func (d dirStore) read(name string) ([]byte, error) {
	raw, err := os.ReadFile(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

func (d dirStore) path(name string) string { return filepath.Join(d.dir, name) }

// writeFile replaces a file atomically, unless it has the contents already.
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
