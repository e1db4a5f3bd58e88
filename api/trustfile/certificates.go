package trustfile

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Certificates parses PEM certificates. The error lists every part of the text that is not a certificate, and any
// incomplete certificate: another program may still be writing the file.
func Certificates(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	var errs []error
	number, begun := 0, bytes.Count(text, []byte("-----BEGIN "))
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		number++
		if block.Type != "CERTIFICATE" {
			hint := "only certificates may be here"
			if strings.HasSuffix(block.Type, "PRIVATE KEY") {
				hint = "machines must never get a private key"
			}
			errs = append(errs, fmt.Errorf("number %d is a %s: remove it, %s", number, block.Type, hint))
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			errs = append(errs, fmt.Errorf("number %d: %w", number, err))
			continue
		}
		all = append(all, cert)
	}
	switch {
	case begun == 0:
		errs = append(errs, errors.New("it has no PEM certificate"))
	case number != begun:
		errs = append(errs, fmt.Errorf("%d of %d certificates are incomplete: each must begin with -----BEGIN "+
			"CERTIFICATE----- and end with -----END CERTIFICATE-----", begun-number, begun))
	}
	return all, errors.Join(errs...)
}

// PEM returns certificates as PEM, one after the other, without other text.
func PEM(all ...*x509.Certificate) string {
	var b strings.Builder
	for _, c := range all {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a Builder returns no error
	}
	return b.String()
}
