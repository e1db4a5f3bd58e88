package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// The lifetimes, and how long before their end a certificate is renewed.
const (
	caLifetime      = 10 * 365 * 24 * time.Hour
	caRenewBefore   = 2 * 365 * 24 * time.Hour
	certLifetime    = 365 * 24 * time.Hour
	certRenewBefore = 120 * 24 * time.Hour
	clockSlack      = time.Hour // The clock of a machine may be behind at its first boot.
)

// material is the content of a store, as PEM; nil for what is missing.
type material struct {
	ca, caKey, cert, key []byte
	// A user supplied the CA: the server signs with it, but never renews it.
	external bool
}

// renewed creates missing parts, renews those that expire soon, and keeps the others.
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
		// A replica that was started with other names may need those of the old certificate.
		names = append(missing, namesOf(pair.Leaf)...)
	}
	m.cert, m.key, err = issueServing(ca, names, now)
	return m, err
}

// issueServing creates a certificate with a new key, both as PEM. It does not expire later than its CA.
func issueServing(ca authority, names []string, now time.Time) (cert, key []byte, err error) {
	signer, key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "bunsen machine-config-server"},
		NotBefore:   now.Add(-clockSlack),
		NotAfter:    now.Add(certLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ca.cert.NotAfter.Before(template.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := sign(template, ca, signer.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("making the serving certificate: %w", err)
	}
	// With the CA's certificate, for clients that have only its fingerprint.
	return append(encode("CERTIFICATE", der), encode("CERTIFICATE", ca.cert.Raw)...), key, nil
}

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

// signCA creates a CA certificate, also as PEM, with the name of the one before, nil for the first. With the same key
// too, machines that trust the earlier one also accept what the new CA signs.
func signCA(key crypto.Signer, before *x509.Certificate, now time.Time) (*x509.Certificate, []byte, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "bunsen machine-config-server CA"},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	if before != nil {
		template.RawSubject, template.SubjectKeyId = before.RawSubject, before.SubjectKeyId
	}
	der, err := sign(template, authority{template, key}, key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("making the CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("making the CA: %w", err)
	}
	return cert, encode("CERTIFICATE", der), nil
}

// parsedCA creates a missing key. The result for a missing certificate is nil.
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

// isCurrent reports whether a CA does not expire soon. One whose validity begins in the future is current: the clock
// was ahead when it was created.
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

// restoreHint is about an unreadable file.
const restoreHint = "restore it, or remove all certificate files to create new ones"

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func sign(template *x509.Certificate, by authority, public crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, by.cert, public, by.key)
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	return key, encode("PRIVATE KEY", der), nil
}

// parseKey reads any of the formats that openssl writes.
func parseKey(raw []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s has no PEM block: %s", CAKeyFile, restoreHint)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", CAKeyFile, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s cannot sign: put a key of ECDSA, RSA or Ed25519 there", CAKeyFile)
	}
	return signer, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
