package pointer

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vincent-petithory/dataurl"
)

// certificate is one of a CA.
type certificate struct {
	// source is the certificate as a data URL. It is not compressed, which the first Ignition that has it for a CA did not get
	// right (2.3; 2.4 does); and there is one for each, since Ignition before 2.4 takes one from a resource only.
	source string
	// about says which it is.
	about string
	// sum is the SHA-256 of its DER, in hexadecimal.
	sum string
}

// Authorities are the SHA-256, in hexadecimal, of each certificate (DER) of a bundle in PEM, as a v1alpha1.ServerReport has
// them. The error is what is wrong with the bundle.
func Authorities(bundle []byte) ([]string, error) {
	all, err := readCertificates(bundle)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, c := range all {
		out = append(out, c.sum)
	}
	return out, nil
}

// readCertificates reads all certificates of PEM, each once; anything else in it is a mistake.
func readCertificates(bundle []byte) ([]certificate, error) {
	var out []certificate
	var errs []error
	seen, blocks, rest := map[string]bool{}, 0, bundle
	for len(bytes.TrimSpace(rest)) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		blocks++
		if block.Type != "CERTIFICATE" {
			hint := "give certificates only"
			if strings.HasSuffix(block.Type, "PRIVATE KEY") {
				hint = "a private key must never leave its place: give the CA's certificate only"
			}
			errs = append(errs, fmt.Errorf("the CA has a %q: %s", block.Type, hint))
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the CA's certificate number %d: %w", len(out)+1, err))
			continue
		}
		if seen[string(c.Raw)] {
			continue
		}
		seen[string(c.Raw)] = true
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
		sum := fmt.Sprintf("%x", sha256.Sum256(c.Raw))
		out = append(out, certificate{
			source: "data:," + dataurl.Escape(text), sum: sum,
			about: fmt.Sprintf("%q until %s, sha256 %s", c.Subject.String(), c.NotAfter.UTC().Format(time.DateOnly), sum),
		})
	}
	if blocks != bytes.Count(bundle, []byte("-----BEGIN ")) || len(bundle) > 0 && blocks == 0 {
		errs = append(errs, errors.New("the CA is no PEM, or cut off: it must begin with -----BEGIN CERTIFICATE----- and end with -----END CERTIFICATE-----"))
	}
	return out, errors.Join(errs...)
}
