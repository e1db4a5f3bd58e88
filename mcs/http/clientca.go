package http

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bunsen-os/bunsen/api/trustfile"
)

// pollInterval is for the file of CA certificates.
const pollInterval = time.Minute

// ClientCertificates are CA certificates. A value of Certificates never changes.
type ClientCertificates []*x509.Certificate

// Issued reports whether the verified chain of a client certificate ends at one of the CAs.
func (r *ClientCertificates) Issued(chains [][]*x509.Certificate) bool {
	if r == nil {
		return false
	}
	return slices.ContainsFunc(chains, func(chain []*x509.Certificate) bool {
		return len(chain) > 0 && slices.ContainsFunc(*r, chain[len(chain)-1].Equal)
	})
}

// ClientCAFile has the CA certificates in a file. All methods may be called concurrently, except two calls of Refresh.
type ClientCAFile struct {
	file  string
	log   *slog.Logger
	text  []byte
	roots atomic.Pointer[ClientCertificates]
}

// ClientCASet has CAs that its owner replaces, such as those that sign the certificates of kubelets. The zero value has
// none. All methods may be called concurrently.
type ClientCASet struct {
	roots atomic.Pointer[ClientCertificates]
}

// Replace replaces the CAs by the CAs in pem. After an error, the CAs are unchanged.
func (c *ClientCASet) Replace(pem []byte) error {
	all, err := parseCAs(pem)
	if err != nil {
		return fmt.Errorf("reading the CAs of kubelets: %w", err)
	}
	c.roots.Store(&all)
	return nil
}

// Certificates returns the CAs in force; nil for none.
func (c *ClientCASet) Certificates() *ClientCertificates { return c.roots.Load() }

// Certificates returns the CAs in force.
func (c *ClientCAFile) Certificates() *ClientCertificates { return c.roots.Load() }

// OpenClientCA reads a PEM file of CA certificates.
func OpenClientCA(file string, log *slog.Logger) (*ClientCAFile, error) {
	c := &ClientCAFile{file: file, log: log}
	return c, c.Refresh()
}

// Run reads the file again when it changes, until the context ends. It logs an invalid one, and the last valid one
// stays in use.
func (c *ClientCAFile) Run(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := c.Refresh(); err != nil {
				c.log.Error("reading the CAs of client certificates failed; the last valid ones stay in use", "error",
					err)
			}
		}
	}
}

// Refresh reads the file of CA certificates.
func (c *ClientCAFile) Refresh() error {
	text, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("reading the CAs of client certificates: %w", err)
	}
	if c.roots.Load() != nil && bytes.Equal(text, c.text) {
		return nil
	}
	all, err := parseCAs(text)
	if err != nil {
		return fmt.Errorf("reading the CAs of client certificates in %s: %w", c.file, err)
	}
	c.text = text
	c.roots.Store(&all)
	c.log.Info("trusting client certificates", "file", c.file, "cas", len(all))
	return nil
}

// parseCAs rejects an incomplete file, which is still being written.
func parseCAs(text []byte) (ClientCertificates, error) {
	all, err := trustfile.Certificates(text)
	if err != nil {
		return nil, err
	}
	for i, cert := range all {
		if !cert.IsCA {
			return nil, fmt.Errorf("certificate %d (%s) is not a CA certificate: use the one that signs client "+
				"certificates", i+1, cert.Subject)
		}
	}
	return all, nil
}
