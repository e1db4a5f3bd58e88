package certs

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The files of a certificate directory, and the keys of the Secrets.
const (
	CAFile      = "ca.crt"
	CAKeyFile   = "ca.key"
	CertFile    = "tls.crt"
	CertKeyFile = "tls.key"
)

const (
	// for finding renewed or replaced certificates
	syncInterval = time.Minute
	// while there is no certificate
	firstSyncInterval = 2 * time.Second
	// for one read of the store
	syncTimeout = 30 * time.Second
	// before a certificate expires that the server does not renew; and between two warnings
	warnAhead = 30 * 24 * time.Hour
	warnAgain = 24 * time.Hour
)

// errNoCertificate: machines retry after this error.
var errNoCertificate = errors.New("there is no certificate yet")

// Certificates has the server's certificate, from OpenCertificates or OpenSecret. It creates a CA and a certificate,
// and renews both long before they expire. The CA's key stays the same, so machines that trust the old CA certificate
// trust the new one. It never writes a certificate that a user supplied. All methods may be called concurrently.
type Certificates struct {
	store   store
	log     *slog.Logger
	current atomic.Pointer[servingCert]

	mu     sync.Mutex // mu allows one sync at a time, and guards warned.
	warned time.Time
}

type store interface {
	// sync creates missing certificates, renews those that expire soon and returns the certificate, maybe together with
	// an error. Without a certificate, the previous one stays in use.
	sync(ctx context.Context, now time.Time) (*servingCert, error)
}

// servingCert is a certificate for TLS.
type servingCert struct {
	pair tls.Certificate
	// what it was read from: ca is what machines have to trust, or nil if unknown; caKey is empty
	material material
	// the file or Secret, for the log
	from string
	// The server renews it.
	managed bool
	// see Certificates.GrantKeys
	grantKeys [][]byte
}

func newServingCert(m material, from string, ours bool) (*servingCert, error) {
	pair, err := tls.X509KeyPair(m.cert, m.key)
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate of %s: %w", from, err)
	}
	m.caKey = nil
	return &servingCert{pair: pair, material: m, from: from, managed: ours}, nil
}

// TLS returns the TLS configuration of the server. Each handshake uses the certificate of the last Refresh.
func (c *Certificates) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			now := c.current.Load()
			if now == nil {
				return nil, errNoCertificate
			}
			return &now.pair, nil
		},
	}
}

// Until returns when the current certificate expires; the zero time while there is no certificate.
func (c *Certificates) Until() time.Time {
	if now := c.current.Load(); now != nil {
		return now.pair.Leaf.NotAfter
	}
	return time.Time{}
}

// CA returns the certificates that machines have to trust, as PEM, or nil while they are not known: there is no
// certificate yet, or a user supplied one without its CA. Do not change the bytes.
func (c *Certificates) CA() []byte {
	if now := c.current.Load(); now != nil {
		return now.material.ca
	}
	return nil
}

// Run calls Refresh regularly until the context ends. It logs failures and keeps the last valid certificate.
func (c *Certificates) Run(ctx context.Context) {
	for {
		pause := time.NewTimer(c.pause())
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case now := <-pause.C:
			limited, cancel := context.WithTimeout(ctx, syncTimeout)
			err := c.Refresh(limited, now)
			cancel()
			if err != nil && ctx.Err() == nil {
				c.log.Error("renewing or reading the certificate failed, will retry", "until", c.Until(), "error", err)
			}
		}
	}
}

func (c *Certificates) pause() time.Duration {
	if c.current.Load() == nil {
		return firstSyncInterval
	}
	return syncInterval
}

// Refresh creates missing certificates, renews certificates that expire soon, and reads changed certificates.
func (c *Certificates) Refresh(ctx context.Context, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, err := c.store.sync(ctx, now)
	if next != nil {
		c.set(next)
	}
	c.warn(now)
	return err
}

// set logs a change.
func (c *Certificates) set(next *servingCert) {
	next.withGrantKeys(c.current.Load(), c.log)
	last := c.current.Swap(next)
	if last != nil && last.pair.Leaf.Equal(next.pair.Leaf) {
		return
	}
	leaf := next.pair.Leaf
	c.log.Info("serving with certificate", "from", next.from, "renewed-by-us", next.managed, "until", leaf.NotAfter,
		"names", leaf.DNSNames, "addresses", leaf.IPAddresses)
	if last != nil && last.material.ca != nil && !sameAuthority(last.material.ca, next.material.ca) {
		c.log.Error("the CA has changed: machines with an earlier pointer config do not trust this server; create "+
			"new pointer configs", "from", next.from)
	}
}

// sameAuthority reports whether two CA certificates have the same key, so that machines that trust one trust the other.
func sameAuthority(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	one, err := parseCertificate(a)
	if err != nil {
		return false
	}
	other, err := parseCertificate(b)
	return err == nil && bytes.Equal(one.RawSubjectPublicKeyInfo, other.RawSubjectPublicKeyInfo)
}

// warn logs that a certificate that the server does not renew expires soon or has expired.
func (c *Certificates) warn(now time.Time) {
	is := c.current.Load()
	if is == nil || now.Before(is.pair.Leaf.NotAfter.Add(-warnAhead)) || now.Sub(c.warned) < warnAgain &&
		!now.Before(c.warned) {
		return
	}
	c.warned = now
	if now.After(is.pair.Leaf.NotAfter) {
		c.log.Warn("the serving certificate has expired and machines do not trust it: replace it", "from", is.from,
			"ended", is.pair.Leaf.NotAfter)
	} else {
		c.log.Warn("the serving certificate expires soon: replace it", "from", is.from, "until", is.pair.Leaf.NotAfter)
	}
}

// checkNames returns the given names, sorted and without duplicates, and those of the loopback interface.
func checkNames(given []string) ([]string, error) {
	for _, name := range given {
		if net.ParseIP(name) == nil && (name == "" || strings.ContainsAny(name, ":/ \t\n")) {
			return nil, fmt.Errorf("%q is not a host name or address: remove scheme, port and blanks", name)
		}
	}
	names := append(slices.Clone(given), "localhost", "127.0.0.1", "::1")
	slices.Sort(names)
	return slices.Compact(names), nil
}

const (
	// in bytes; grantKeyInfo keeps other uses of the same key apart
	grantKeySize = sha256.Size
	grantKeyInfo = "bunsen machine-config-server content grants 1"
	// A new certificate has a new key, and machines still have grants of the old one.
	maxGrantKeys = 4
)

// GrantKeys returns keys that authenticate grants: that of the current certificate, which all replicas share, and then
// those of earlier ones of this process; none while there is no certificate.
func (c *Certificates) GrantKeys() [][]byte {
	if now := c.current.Load(); now != nil {
		return now.grantKeys
	}
	return nil
}

// Covers reports whether the current certificate is for a host.
func (c *Certificates) Covers(host string) bool {
	now := c.current.Load()
	return now != nil && now.pair.Leaf.VerifyHostname(host) == nil
}

// withGrantKeys derives a certificate's key, and keeps those of the one before, which may be nil.
func (s *servingCert) withGrantKeys(last *servingCert, log *slog.Logger) {
	private, err := x509.MarshalPKCS8PrivateKey(s.pair.PrivateKey)
	var key []byte
	if err == nil {
		key, err = hkdf.Key(sha256.New, private, nil, grantKeyInfo, grantKeySize)
	}
	if err != nil {
		log.Error("new machines get no files of the content store: the key of the certificate cannot be used", "from",
			s.from, "error", err)
	} else {
		s.grantKeys = [][]byte{key}
	}
	if last == nil {
		return
	}
	for _, earlier := range last.grantKeys {
		if string(earlier) != string(key) && len(s.grantKeys) < maxGrantKeys {
			s.grantKeys = append(s.grantKeys, earlier)
		}
	}
}
