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

// mend says what to do about what cannot be read.
const mend = "restore it, or remove it and all that lies beside it to have new ones made"

// authority is a CA that can sign.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// certify makes a CA's certificate, also as PEM. Made again after one before, for the same key and name, either of the two
// proves what the key signs: machines that were given the old one need no new one. Before is nil for the first.
func certify(key crypto.Signer, before *x509.Certificate, now time.Time) (*x509.Certificate, []byte, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "bunsen machine-config-server CA"},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(caLife),
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

// issue makes a serving certificate with a new key, both as PEM. It does not outlast its CA.
func issue(ca authority, names []string, now time.Time) (cert, key []byte, err error) {
	signer, key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "bunsen machine-config-server"},
		NotBefore:   now.Add(-clockSlack),
		NotAfter:    now.Add(certLife),
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
	// The CA goes along, so that whoever has only its fingerprint can check it.
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

// newKey makes a key, also as PEM.
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

// parseKey reads a CA's key in any of the forms that openssl writes.
func parseKey(raw []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s has no PEM block: %s", CAKeyFile, mend)
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
