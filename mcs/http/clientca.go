package http

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// lookAgain is how often the file of authorities is looked at for a change.
const lookAgain = time.Minute

// ClientCAs are the authorities whose client certificates are believed, as a file has them. Open one with OpenClientCAs; all
// methods may be called at once, but Refresh only by one.
type ClientCAs struct {
	file string
	log  *slog.Logger
	text []byte
	pool atomic.Pointer[x509.CertPool]
}

// OpenClientCAs reads a file of certificates as PEM.
func OpenClientCAs(file string, log *slog.Logger) (*ClientCAs, error) {
	c := &ClientCAs{file: file, log: log}
	return c, c.Refresh()
}

// Pool is the authorities as last read.
func (c *ClientCAs) Pool() *x509.CertPool { return c.pool.Load() }

// Run takes up changes of the file until the context ends. A file that has become bad is logged; the last good one counts.
func (c *ClientCAs) Run(ctx context.Context) {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := c.Refresh(); err != nil {
				c.log.Error("keeping the last good authorities of client certificates", "error", err)
			}
		}
	}
}

// Refresh takes up the file as it is now.
func (c *ClientCAs) Refresh() error {
	text, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("reading authorities of client certificates: %w", err)
	}
	if c.pool.Load() != nil && bytes.Equal(text, c.text) {
		return nil
	}
	pool, n, err := authorities(text)
	if err != nil {
		return fmt.Errorf("reading authorities of client certificates in %s: %w", c.file, err)
	}
	c.text = text
	c.pool.Store(pool)
	c.log.Info("believing client certificates", "file", c.file, "authorities", n)
	return nil
}

// authorities reads a PEM file whole or not at all: half of a file that is being written is no list.
func authorities(text []byte) (*x509.CertPool, int, error) {
	pool, n := x509.NewCertPool(), 0
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			return nil, 0, fmt.Errorf("block %d is a %s that is no certificate: give certificates only", n+1, block.Type)
		}
		if !cert.IsCA {
			return nil, 0, fmt.Errorf("certificate %d (%s) is not that of an authority: give the one that signs client certificates", n+1, cert.Subject)
		}
		pool.AddCert(cert)
		n, text = n+1, rest
	}
	if n == 0 || bytes.Contains(text, []byte("-----BEGIN")) {
		return nil, 0, errors.New("want one or more whole certificates as PEM")
	}
	return pool, n, nil
}
