package join

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/vincent-petithory/dataurl"

	"github.com/bunsen-os/bunsen/api/trustfile"
)

// certificate is one CA certificate.
type certificate struct {
	// source is the certificate as a data URL. The certificate is not compressed, because Ignition 2.3 fails on a
	// compressed CA. Each certificate is a resource of its own, because Ignition before 2.4 reads only the first
	// certificate of a resource.
	source string
	// description is a text about the certificate, for people.
	description string
	// fingerprint is the SHA-256 of the certificate's DER, in hexadecimal.
	fingerprint string
}

// Fingerprints returns the SHA-256, in hexadecimal, of each certificate (DER) of a PEM bundle, as in a
// v1alpha1.ServerReport. The error says what is wrong with the bundle.
func Fingerprints(bundle []byte) ([]string, error) {
	all, err := readCertificates(bundle)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, c := range all {
		out = append(out, c.fingerprint)
	}
	return out, nil
}

// readCertificates parses all certificates of a PEM bundle, which may be empty, and drops duplicates.
func readCertificates(bundle []byte) ([]certificate, error) {
	if len(bytes.TrimSpace(bundle)) == 0 {
		return nil, nil
	}
	all, err := trustfile.Certificates(bundle)
	if err != nil {
		err = fmt.Errorf("reading the CA: %w", err)
	}
	var out []certificate
	seen := map[string]bool{}
	for _, c := range all {
		sum := fmt.Sprintf("%x", sha256.Sum256(c.Raw))
		if seen[sum] {
			continue
		}
		seen[sum] = true
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
		out = append(out, certificate{
			source: "data:," + dataurl.Escape(text), fingerprint: sum,
			description: fmt.Sprintf("%q until %s, sha256 %s", c.Subject.String(),
				c.NotAfter.UTC().Format(time.DateOnly), sum),
		})
	}
	return out, err
}
