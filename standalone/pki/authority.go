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

// The lifetimes of certificates. A start renews each certificate that is in the last third of its life. So each
// certificate is valid for at least four months after a start.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// skew is the time by which a client's clock may be behind. A client with such a clock still accepts a new
	// certificate.
	skew = 5 * time.Minute
)

// Authority signs certificates. Authority is a key and a self-signed certificate in <dir>/<name>.key and
// <dir>/<name>.crt.
type Authority struct {
	dir, name string
	now       time.Time
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
}

// OpenAuthority reads the CA, or creates it if neither of its files exists. A CA that expires soon gets a new
// certificate for the same key, so that the certificates that the CA has signed stay valid. A damaged CA is an error,
// because clients trust it.
func OpenAuthority(dir, name string, now time.Time) (*Authority, error) {
	a := &Authority{dir: dir, name: name, now: now}
	err := a.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if a.key, err = newKey(); err != nil {
			return nil, fmt.Errorf("creating the key of CA %q: %w", name, err)
		}
	case err != nil:
		return nil, fmt.Errorf("reading CA %q: %w (to start over with new keys remove %s)", name, err, dir)
	case !nearEnd(a.cert, now):
		return a, nil
	}
	return a, a.selfSign()
}

// CertPath returns the path of the CA certificate, which clients trust.
func (a *Authority) CertPath() string { return filepath.Join(a.dir, a.name+".crt") }

// KeyPath returns the path of the CA's private key.
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
		// Only the CA's key exists, because an earlier start was interrupted before it wrote the certificate. So the CA
		// has signed no certificate yet.
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
		return fmt.Errorf("signing CA %q: %w", a.name, err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("signing CA %q: %w", a.name, err)
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

// nearEnd reports whether a certificate is in the last third of its life, or not valid yet.
func nearEnd(c *x509.Certificate, now time.Time) bool {
	life := c.NotAfter.Sub(c.NotBefore)
	return now.Before(c.NotBefore) || now.After(c.NotAfter.Add(-life/3))
}
