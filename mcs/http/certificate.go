package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// The files of a certificate directory.
const (
	CAFile      = "ca.crt"
	CAKeyFile   = "ca.key"
	CertFile    = "tls.crt"
	CertKeyFile = "tls.key"
)

// lookAgain is how often the directory is looked at for renewed or replaced certificates.
const lookAgain = time.Minute

// Certificates keeps the serving certificate of one directory. Where the directory is empty it makes a CA and a
// certificate of it, and renews both long before they end; the CA's key stays the same, so machines that trust the old
// CA certificate trust what comes after. A directory that has tls.crt and tls.key but no ca.key is somebody else's: it
// is read and never written. Open one with OpenCertificates; all methods may be called at once.
type Certificates struct {
	dir     string
	names   []string
	log     *slog.Logger
	current atomic.Pointer[tls.Certificate]
}

// OpenCertificates makes or reads the certificates of a directory. Names are the host names and addresses that machines
// ask for; this host's name and the loopback addresses are added.
func OpenCertificates(dir string, names []string, log *slog.Logger) (*Certificates, error) {
	for _, name := range names {
		if net.ParseIP(name) == nil && (name == "" || strings.ContainsAny(name, ":/ \t\n")) {
			return nil, fmt.Errorf("host name %q is neither a name nor an address: give it without scheme, port and blanks", name)
		}
	}
	names = append(slices.Clone(names), "localhost", "127.0.0.1", "::1")
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	slices.Sort(names)
	c := &Certificates{dir: dir, names: slices.Compact(names), log: log}
	return c, c.Refresh(time.Now())
}

// TLS is the configuration to serve with; it follows every Refresh.
func (c *Certificates) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}

// Run refreshes until the context ends. A directory that has become bad is logged; the last good certificate stays.
func (c *Certificates) Run(ctx context.Context) {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if err := c.Refresh(now); err != nil {
				c.log.Error("keeping the last good certificate", "error", err)
			}
		}
	}
}

// Refresh makes what is missing, renews what is due and takes up what changed in the directory.
func (c *Certificates) Refresh(now time.Time) error {
	own, err := c.owned()
	if err != nil {
		return err
	}
	if own {
		if err := c.keep(now); err != nil {
			return fmt.Errorf("keeping certificates in %s: %w", c.dir, err)
		}
	}
	pair, err := tls.LoadX509KeyPair(c.path(CertFile), c.path(CertKeyFile))
	if err != nil {
		return fmt.Errorf("reading the serving certificate %s: %w", c.path(CertFile), err)
	}
	if now.After(pair.Leaf.NotAfter) {
		c.log.Warn("the serving certificate has ended and machines refuse it: replace it", "file", c.path(CertFile), "ended", pair.Leaf.NotAfter)
	}
	if last := c.current.Swap(&pair); last == nil || !last.Leaf.Equal(pair.Leaf) {
		c.log.Info("serving with certificate", "file", c.path(CertFile), "until", pair.Leaf.NotAfter,
			"names", pair.Leaf.DNSNames, "addresses", pair.Leaf.IPAddresses)
	}
	return nil
}

// owned tells whether the directory is ours to write: it has our CA's key, or nothing yet.
func (c *Certificates) owned() (bool, error) {
	var found []string
	for _, name := range []string{CAKeyFile, CertFile, CertKeyFile} {
		_, err := os.Stat(c.path(name))
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
	return false, fmt.Errorf("%s has %s alone: put %s and %s there, or empty the directory to have them made", c.dir, found[0], CertFile, CertKeyFile)
}

func (c *Certificates) path(name string) string { return filepath.Join(c.dir, name) }
