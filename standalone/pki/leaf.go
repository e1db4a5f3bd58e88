package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"path/filepath"
	"slices"
)

// Request describes a certificate.
type Request struct {
	// Name is the file name without its ending.
	Name string
	// CommonName is the user name for the API server.
	CommonName string
	// Groups are the groups of the user.
	Groups []string
	// Hosts are names and addresses of a server. Only a certificate with hosts is
	// valid for a server.
	Hosts []string
}

// Pair has the paths of a certificate and its key.
type Pair struct{ Cert, Key string }

// Ensure returns the requested certificate. Ensure keeps an existing certificate that matches the request and its key,
// is signed by this CA and does not expire soon. Otherwise Ensure creates a new key and certificate.
func (a *Authority) Ensure(r Request) (Pair, error) {
	p := Pair{Cert: filepath.Join(a.dir, r.Name+".crt"), Key: filepath.Join(a.dir, r.Name+".key")}
	cert, certErr := readCert(p.Cert)
	key, keyErr := readKey(p.Key)
	if certErr == nil && keyErr == nil && a.isValid(cert, key, r) {
		return p, nil
	}
	key, err := newKey()
	if err != nil {
		return Pair{}, fmt.Errorf("creating the key %q: %w", r.Name, err)
	}
	der, err := sign(a.template(r), a.cert, &key.PublicKey, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate %q: %w", r.Name, err)
	}
	return p, writePair(p.Key, key, p.Cert, der)
}

// isValid reports whether an existing certificate need not be replaced.
func (a *Authority) isValid(c *x509.Certificate, key *ecdsa.PrivateKey, r Request) bool {
	want := a.template(r)
	return key.PublicKey.Equal(c.PublicKey) &&
		c.CheckSignatureFrom(a.cert) == nil &&
		!nearEnd(c, a.now) &&
		c.Subject.String() == want.Subject.String() &&
		slices.Equal(c.DNSNames, want.DNSNames) &&
		slices.EqualFunc(c.IPAddresses, want.IPAddresses, net.IP.Equal) &&
		slices.Equal(c.ExtKeyUsage, want.ExtKeyUsage)
}

func (a *Authority) template(r Request) *x509.Certificate {
	end := a.now.Add(leafLife)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter
	}
	c := &x509.Certificate{
		Subject:     pkix.Name{CommonName: r.CommonName, Organization: r.Groups},
		NotBefore:   a.now.Add(-skew),
		NotAfter:    end,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(r.Hosts) > 0 {
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range r.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	return c
}
