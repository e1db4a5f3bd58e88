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

// The lifetimes of certificates, and the time before the end of a lifetime at which the server renews a certificate.
const (
	caLifetime      = 10 * 365 * 24 * time.Hour
	caRenewBefore   = 2 * 365 * 24 * time.Hour
	certLifetime    = 365 * 24 * time.Hour
	certRenewBefore = 120 * 24 * time.Hour
	clockSlack      = time.Hour // The clock of a machine may be behind at its first boot.
)

// material is the content of a store: certificates and keys as PEM. A missing part is nil.
type material struct {
	ca, caKey, cert, key []byte
	// external is true if a user supplied the CA: the server signs certificates with this CA, but never renews it.
	external bool
}

// renewed returns a new version of the material. renewed creates missing parts, renews parts that expire soon, and does
// not change other parts.
func (m material) renewed(names []string, now time.Time) (material, error) {
	ca, m, err := m.authority(now)
	if err != nil {
		return m, err
	}
	pair, err := tls.X509KeyPair(m.cert, m.key)
	if err == nil && signedBy(pair.Leaf, ca) && !needsRenewal(pair.Leaf, ca, now) {
		missing := missingNames(names, pair.Leaf)
		if len(missing) == 0 {
			return m, nil
		}
		// The new certificate keeps the other names of the old certificate, because a replica that was started with
		// other names may need them.
		names = append(missing, namesOf(pair.Leaf)...)
	}
	m.cert, m.key, err = issueServing(ca, names, now)
	return m, err
}

// authority reads the CA, and creates or renews it.
func (m material) authority(now time.Time) (authority, material, error) {
	if m.external && (m.ca == nil || m.caKey == nil) {
		return authority{}, m, fmt.Errorf("there is only one of %s and %s: add the other one, or remove it to "+
			"create both", CAFile, CAKeyFile)
	}
	signer, cert, m, err := m.parsedCA()
	if err != nil {
		return authority{}, m, err
	}
	isPair := cert != nil && keyMatches(signer, cert)
	switch {
	case m.external && !isPair:
		return authority{}, m, fmt.Errorf("%s does not belong to %s: use certificate and key of one CA", CAFile,
			CAKeyFile)
	case m.external, isPair && isCurrent(cert, now):
		return authority{cert, signer}, m, nil
	case !isPair:
		cert = nil
	}
	cert, m.ca, err = signCA(signer, cert, now)
	return authority{cert, signer}, m, err
}

// parsedCA parses the CA's certificate and key. parsedCA creates a missing key. The result for a missing certificate is
// nil.
func (m material) parsedCA() (signer crypto.Signer, cert *x509.Certificate, with material, err error) {
	if m.caKey == nil {
		signer, m.caKey, err = newKey()
	} else {
		signer, err = parseKey(m.caKey)
	}
	if err == nil && m.ca != nil {
		cert, err = parseCertificate(m.ca)
	}
	return signer, cert, m, err
}

// isCurrent reports whether a CA is valid and does not expire soon. A CA whose validity begins in the future is
// current, because the clock was ahead when it was created.
func isCurrent(ca *x509.Certificate, now time.Time) bool {
	return !now.Before(ca.NotBefore) && now.Before(ca.NotAfter.Add(-caRenewBefore))
}

// needsRenewal reports whether a certificate expires soon, and a new one would expire later.
func needsRenewal(cert *x509.Certificate, ca authority, now time.Time) bool {
	return now.Before(cert.NotBefore) || !now.Before(cert.NotAfter.Add(-certRenewBefore)) &&
		cert.NotAfter.Before(ca.cert.NotAfter)
}

func signedBy(cert *x509.Certificate, ca authority) bool {
	return cert.CheckSignatureFrom(ca.cert) == nil
}

// keyMatches reports whether a certificate belongs to a key.
func keyMatches(key crypto.Signer, cert *x509.Certificate) bool {
	public, ok := key.Public().(interface{ Equal(x crypto.PublicKey) bool })
	return ok && public.Equal(cert.PublicKey)
}

// missingNames returns the names that a certificate does not have.
func missingNames(names []string, cert *x509.Certificate) []string {
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

func parseCertificate(raw []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s has no PEM block: %s", CAFile, restoreHint)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", CAFile, err)
	}
	return cert, nil
}
