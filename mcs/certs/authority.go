package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// restoreHint says what to do about an unreadable file.
const restoreHint = "restore it, or remove all certificate files to create new ones"

// authority is a CA with its key.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// signCA creates a CA certificate, also as PEM. The new certificate has the same name as the earlier certificate
// before. If the key is the same too, machines that trust the earlier certificate also accept certificates that the new
// CA signs. The parameter before is nil for the first certificate.
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

// issueServing creates a serving certificate with a new key, both as PEM. The certificate does not expire later than
// its CA.
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
	// The result includes the CA's certificate, for clients that have only the fingerprint of the CA.
	return append(encode("CERTIFICATE", der), encode("CERTIFICATE", ca.cert.Raw)...), key, nil
}

func sign(template *x509.Certificate, by authority, public crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, by.cert, public, by.key)
}

// newKey creates a key, also as PEM.
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

// parseKey parses a CA key in any of the formats that openssl writes.
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
