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

	"github.com/bunsen-os/bunsen/mcs"
)

// pollInterval is how often the file of CA certificates is read again.
const pollInterval = time.Minute

// caCerts are CA certificates. They never change.
type caCerts []*x509.Certificate

// issued reports whether the verified chain of a client certificate ends at one of these CAs.
func (r *caCerts) issued(chains [][]*x509.Certificate) bool {
	if r == nil {
		return false
	}
	return slices.ContainsFunc(chains, func(chain []*x509.Certificate) bool {
		return len(chain) > 0 && slices.ContainsFunc(*r, chain[len(chain)-1].Equal)
	})
}

// ClientCAs are the CAs in a file whose client certificates authorize machines. Create one with OpenClientCAs. All methods may
// be called concurrently, except Refresh with itself.
type ClientCAs struct {
	file  string
	log   *slog.Logger
	text  []byte
	roots atomic.Pointer[caCerts]
}

// NodeCAs are the CAs that sign the certificates of the cluster's kubelets. The zero value has none, so it trusts no node. All
// methods may be called concurrently.
type NodeCAs struct {
	roots atomic.Pointer[caCerts]
}

// Set replaces the CAs by those in pem. After an error, the CAs are unchanged.
func (c *NodeCAs) Set(pem []byte) error {
	all, err := parseCAs(pem)
	if err != nil {
		return fmt.Errorf("reading the CAs of kubelets: %w", err)
	}
	c.roots.Store(&all)
	return nil
}

// OpenClientCAs reads a PEM file of CA certificates.
func OpenClientCAs(file string, log *slog.Logger) (*ClientCAs, error) {
	c := &ClientCAs{file: file, log: log}
	return c, c.Refresh()
}

// Run reads the file again when it changes, until the context ends. It logs an invalid file and keeps the last valid one.
func (c *ClientCAs) Run(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := c.Refresh(); err != nil {
				c.log.Error("reading the CAs of client certificates failed; the last valid ones stay in use", "error", err)
			}
		}
	}
}

// Refresh reads the file.
func (c *ClientCAs) Refresh() error {
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

// parseCAs parses CA certificates in PEM. It rejects an incomplete file, which is still being written.
func parseCAs(text []byte) (caCerts, error) {
	all, err := mcs.ParseCertificates(text)
	if err != nil {
		return nil, err
	}
	for i, cert := range all {
		if !cert.IsCA {
			return nil, fmt.Errorf("certificate %d (%s) is not a CA certificate: use the one that signs client certificates", i+1, cert.Subject)
		}
	}
	return all, nil
}

// clientRoots are the CAs that verify client certificates in a handshake. What a certificate authorizes depends on its CA.
type clientRoots struct{ machines, nodes *caCerts }

// pool returns all CAs.
func (b clientRoots) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, r := range []*caCerts{b.machines, b.nodes} {
		if r == nil {
			continue
		}
		for _, cert := range *r {
			pool.AddCert(cert)
		}
	}
	return pool
}
