package http

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// How long certificates last, and how long before their end they are renewed.
const (
	caLife     = 10 * 365 * 24 * time.Hour
	caRenew    = 2 * 365 * 24 * time.Hour
	certLife   = 365 * 24 * time.Hour
	certRenew  = 120 * 24 * time.Hour
	clockSlack = time.Hour // a machine's clock may be behind at first boot
)

// authority is a CA that can sign.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// keep brings our own CA and certificate up to date.
func (c *Certificates) keep(now time.Time) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	ca, err := c.authority(now)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.path(CertFile), c.path(CertKeyFile))
	if err == nil && c.good(pair.Leaf, ca, now) {
		return nil
	}
	return c.issue(ca, now)
}

// good tells whether a certificate can go on serving.
func (c *Certificates) good(cert *x509.Certificate, ca authority, now time.Time) bool {
	return c.namedBy(cert) && now.Before(cert.NotAfter.Add(-certRenew)) && !now.Before(cert.NotBefore) && cert.CheckSignatureFrom(ca.cert) == nil
}

// namedBy tells whether a certificate has every name that machines may ask for.
func (c *Certificates) namedBy(cert *x509.Certificate) bool {
	for _, name := range c.names {
		ip := net.ParseIP(name)
		if !slices.Contains(cert.DNSNames, name) && !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// authority reads the CA, and makes or renews it.
func (c *Certificates) authority(now time.Time) (authority, error) {
	key, err := c.authorityKey()
	if err != nil {
		return authority{}, err
	}
	cert, err := readCertificate(c.path(CAFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return authority{}, err
	}
	public, ok := key.Public().(*ecdsa.PublicKey)
	if !ok {
		return authority{}, fmt.Errorf("%s is no ECDSA key: remove the directory's files to have new ones made", CAKeyFile)
	}
	if cert != nil && public.Equal(cert.PublicKey) && now.Before(cert.NotAfter.Add(-caRenew)) {
		return authority{cert, key}, nil
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "bunsen machine-config-server CA"},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := sign(template, authority{template, key}, key.Public())
	if err != nil {
		return authority{}, fmt.Errorf("making the CA: %w", err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		return authority{}, fmt.Errorf("making the CA: %w", err)
	}
	return authority{cert, key}, writeFile(c.path(CAFile), encode("CERTIFICATE", der), 0o644)
}

// authorityKey reads the CA's key, or makes it.
func (c *Certificates) authorityKey() (crypto.Signer, error) {
	raw, err := os.ReadFile(c.path(CAKeyFile))
	if err == nil {
		return parseKey(raw)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return newKey(c.path(CAKeyFile))
}

// issue makes a serving certificate with a new key.
func (c *Certificates) issue(ca authority, now time.Time) error {
	key, err := newKey(c.path(CertKeyFile))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "bunsen machine-config-server"},
		NotBefore:   now.Add(-clockSlack),
		NotAfter:    now.Add(certLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range c.names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := sign(template, ca, key.Public())
	if err != nil {
		return fmt.Errorf("making the serving certificate: %w", err)
	}
	// The CA goes along, so that whoever has only its fingerprint can check it.
	chain := append(encode("CERTIFICATE", der), encode("CERTIFICATE", ca.cert.Raw)...)
	return writeFile(c.path(CertFile), chain, 0o644)
}

func sign(template *x509.Certificate, by authority, public crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, by.cert, public, by.key)
}

// newKey makes a key and writes it where only we can read it.
func newKey(file string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, writeFile(file, encode("PRIVATE KEY", der), 0o600)
}

func parseKey(raw []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s has no PEM block: restore it, or remove the directory's files to have new ones made", CAKeyFile)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", CAKeyFile, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s cannot sign", CAKeyFile)
	}
	return signer, nil
}

func readCertificate(file string) (*x509.Certificate, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s has no PEM block: restore it, or remove the directory's files to have new ones made", file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return cert, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

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
