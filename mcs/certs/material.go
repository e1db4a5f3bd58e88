package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
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

// material is what a place keeps, each as PEM; nil where it is not there.
type material struct {
	ca, caKey, cert, key []byte
	// fixed is a CA that somebody else supplied: it signs, and is never renewed.
	fixed bool
}

// renewed is the material as it should be: what is missing is made, what is due is renewed, what is good stays as it is.
func (m material) renewed(names []string, now time.Time) (material, error) {
	ca, m, err := m.authority(now)
	if err != nil {
		return m, err
	}
	pair, err := tls.X509KeyPair(m.cert, m.key)
	if err == nil && signedBy(pair.Leaf, ca) && !due(pair.Leaf, ca, now) {
		missing := without(names, pair.Leaf)
		if len(missing) == 0 {
			return m, nil
		}
		// What it has stays, though we do not ask for it: a replica that was started with other names may.
		names = append(missing, namesOf(pair.Leaf)...)
	}
	m.cert, m.key, err = issue(ca, names, now)
	return m, err
}

// authority reads the CA, and makes or renews it.
func (m material) authority(now time.Time) (authority, material, error) {
	if m.fixed && (m.ca == nil || m.caKey == nil) {
		return authority{}, m, fmt.Errorf("of %s and %s somebody has put one alone there: put both there, or none to have them made", CAFile, CAKeyFile)
	}
	var signer crypto.Signer
	var cert *x509.Certificate
	var err error
	if m.caKey == nil {
		signer, m.caKey, err = newKey()
	} else {
		signer, err = parseKey(m.caKey)
	}
	if err == nil && m.ca != nil {
		cert, err = parseCertificate(m.ca)
	}
	switch {
	case err != nil:
		return authority{}, m, err
	case m.fixed && !belongs(signer, cert):
		return authority{}, m, fmt.Errorf("%s is not the certificate of %s: put both of one CA there", CAFile, CAKeyFile)
	// One of the future was made by a clock that was ahead: no machine would believe it yet.
	case m.fixed, cert != nil && belongs(signer, cert) && !now.Before(cert.NotBefore) && now.Before(cert.NotAfter.Add(-caRenew)):
		return authority{cert, signer}, m, nil
	case cert != nil && !belongs(signer, cert):
		cert = nil
	}
	cert, m.ca, err = certify(signer, cert, now)
	return authority{cert, signer}, m, err
}

// due tells whether a certificate has to be renewed, and can be made to last longer.
func due(cert *x509.Certificate, ca authority, now time.Time) bool {
	return now.Before(cert.NotBefore) || !now.Before(cert.NotAfter.Add(-certRenew)) && cert.NotAfter.Before(ca.cert.NotAfter)
}

func signedBy(cert *x509.Certificate, ca authority) bool {
	return cert.CheckSignatureFrom(ca.cert) == nil
}

// belongs tells whether a certificate is of a key.
func belongs(key crypto.Signer, cert *x509.Certificate) bool {
	public, ok := key.Public().(interface{ Equal(x crypto.PublicKey) bool })
	return ok && public.Equal(cert.PublicKey)
}

// without are the names that a certificate lacks.
func without(names []string, cert *x509.Certificate) []string {
	var missing []string
	for _, name := range names {
		ip := net.ParseIP(name)
		if !slices.Contains(cert.DNSNames, name) && !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			missing = append(missing, name)
		}
	}
	return missing
}

func namesOf(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// sameAuthority tells whether machines that believe one CA believe the other: both are of the same key.
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

func parseCertificate(raw []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s has no PEM block: %s", CAFile, mend)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", CAFile, err)
	}
	return cert, nil
}
