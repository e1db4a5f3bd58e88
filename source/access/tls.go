package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// TLS returns the TLS settings of a client: the authorities of the system and those of the Secret's ca.crt, and the
// client certificate in tls.crt and tls.key. An error says which key is wrong.
func TLS(secret map[string][]byte) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if pem, ok := secret["ca.crt"]; ok {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, errors.New("the Secret's ca.crt holds no certificate: it must be PEM, -----BEGIN " +
				"CERTIFICATE-----")
		}
		out.RootCAs = roots
	}
	certificate, key := secret["tls.crt"], secret["tls.key"]
	switch {
	case len(certificate) == 0 && len(key) == 0:
		return out, nil
	case len(certificate) == 0 || len(key) == 0:
		return nil, errors.New("the Secret has only one of tls.crt and tls.key: a client certificate needs both")
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate of the Secret: tls.crt must be a certificate in PEM, "+
			"and tls.key its own key in PEM (%w)", err)
	}
	out.Certificates = []tls.Certificate{pair}
	return out, nil
}
