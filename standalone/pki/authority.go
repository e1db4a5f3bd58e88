package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"path/filepath"
	"time"
)

// Lifetimes. A leaf is renewed on a start in the last third of its life, so one
// that is started at all is good for four months more.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// skew lets a certificate be used at once by a clock that is a little behind.
	skew = 5 * time.Minute
)

// Authority signs certificates. It is a key and a self-signed certificate in
// <dir>/<name>.key and <dir>/<name>.crt.
type Authority struct {
	dir, name string
	now       time.Time
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
}

// OpenAuthority reads the authority, or makes it where neither of its files
// exists. One that is near its end gets a new certificate on the same key, so
// that what it signed stays valid. A damaged one is an error: replacing it would
// lock out everybody who trusts it.
func OpenAuthority(dir, name string, now time.Time) (*Authority, error) {
	a := &Authority{dir: dir, name: name, now: now}
	err := a.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if a.key, err = newKey(); err != nil {
			return nil, fmt.Errorf("making the key of authority %q: %w", name, err)
		}
	case err != nil:
		return nil, fmt.Errorf("reading authority %q: %w (to start over with new keys remove %s)", name, err, dir)
	case !nearEnd(a.cert, now):
		return a, nil
	}
	return a, a.selfSign()
}

// CertPath is the authority's certificate: what a client trusts.
func (a *Authority) CertPath() string { return filepath.Join(a.dir, a.name+".crt") }

// KeyPath is the authority's private key.
func (a *Authority) KeyPath() string { return filepath.Join(a.dir, a.name+".key") }

func (a *Authority) load() error {
	key, keyErr := readKey(a.KeyPath())
	cert, certErr := readCert(a.CertPath())
	switch {
	case errors.Is(keyErr, fs.ErrNotExist) && certErr == nil:
		return fmt.Errorf("%s is missing beside its certificate", filepath.Base(a.KeyPath()))
	case keyErr != nil:
		return keyErr
	case errors.Is(certErr, fs.ErrNotExist):
		// A start was cut off between the two files: nothing was signed yet.
		return certErr
	case certErr != nil:
		return certErr
	case !key.PublicKey.Equal(cert.PublicKey):
		return fmt.Errorf("%s and %s do not belong together", filepath.Base(a.KeyPath()), filepath.Base(a.CertPath()))
	}
	a.key, a.cert = key, cert
	return nil
}

func (a *Authority) selfSign() error {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "bunsen-standalone-" + a.name},
		NotBefore:             a.now.Add(-skew),
		NotAfter:              a.now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := sign(template, template, &a.key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("signing authority %q: %w", a.name, err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("signing authority %q: %w", a.name, err)
	}
	return writePair(a.KeyPath(), a.key, a.CertPath(), der)
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, by *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	return x509.CreateCertificate(rand.Reader, template, parent, public, by)
}

// nearEnd is true in the last third of a certificate's life, and before it begins.
func nearEnd(c *x509.Certificate, now time.Time) bool {
	life := c.NotAfter.Sub(c.NotBefore)
	return now.Before(c.NotBefore) || now.After(c.NotAfter.Add(-life/3))
}
