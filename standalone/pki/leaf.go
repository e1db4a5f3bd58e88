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

// Request is a certificate that is wanted.
type Request struct {
	// Name is the file name without its ending.
	Name string
	// CommonName is who the bearer is: a user name to the API server.
	CommonName string
	// Groups are the bearer's groups.
	Groups []string
	// Hosts are names and addresses that the bearer may serve under. Only a
	// request with hosts gives a certificate that can serve.
	Hosts []string
}

// Pair is where a certificate and its key lie.
type Pair struct{ Cert, Key string }

// Ensure returns the certificate that is asked for. It keeps the one that is
// there as long as it fits the request, belongs to its key, is signed by this
// authority and is not near its end; otherwise it makes a new key and signs it.
func (a *Authority) Ensure(r Request) (Pair, error) {
	p := Pair{Cert: filepath.Join(a.dir, r.Name+".crt"), Key: filepath.Join(a.dir, r.Name+".key")}
	cert, certErr := readCert(p.Cert)
	key, keyErr := readKey(p.Key)
	if certErr == nil && keyErr == nil && a.good(cert, key, r) {
		return p, nil
	}
	key, err := newKey()
	if err != nil {
		return Pair{}, fmt.Errorf("making the key %q: %w", r.Name, err)
	}
	der, err := sign(a.template(r), a.cert, &key.PublicKey, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate %q: %w", r.Name, err)
	}
	return p, writePair(p.Key, key, p.Cert, der)
}

// good says whether a certificate can stay.
func (a *Authority) good(c *x509.Certificate, key *ecdsa.PrivateKey, r Request) bool {
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
