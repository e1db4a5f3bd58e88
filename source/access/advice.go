package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// CertificateAdvice returns what to do about a failed TLS handshake; "" for any other error.
func CertificateAdvice(err error) string {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var untrusted *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate has expired, or is not valid yet: renew it on the server, or correct the " +
			"clock of the controller's machine"
	case errors.As(err, &host):
		return "the server's certificate is for other names: correct the host of the URL, or add that host to the " +
			"certificate"
	case errors.As(err, &untrusted):
		return "the server's certificate is not trusted: put its certificate authority into the Secret as ca.crt"
	case errors.As(err, &alert):
		return "the server refuses the TLS handshake: if it requires a client certificate, write a valid one into " +
			"tls.crt and tls.key of the Secret"
	}
	return ""
}
