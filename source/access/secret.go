package access

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// otherNames maps keys that other programs, and Kubernetes' own types of Secrets, use to the keys that Bunsen reads.
var otherNames = map[string]string{
	"ca": "ca.crt", "caFile": "ca.crt", "certFile": "tls.crt", "keyFile": "tls.key", "knownHosts": "known_hosts",
	"passphrase": "password", "ssh-privatekey": "identity", "sshPrivateKey": "identity", "tlsClientCertData": "tls.crt",
	"tlsClientCertKey": "tls.key", "token": "bearerToken", "user": "username",
	"githubAppEnterpriseBaseUrl": "githubAppBaseURL",
	"githubAppId":                "githubAppID", "githubAppInstallationId": "githubAppInstallationID", "url": "address",
	"proxy": "address",
}

// CheckAdvice is the advice in errors for refused credentials. For credentials that come from no Secret, errors must
// have another advice.
const CheckAdvice = "check username and password, or bearerToken, in the Secret of secretRef"

// CheckLogin returns an error for a user name, password or token that no request can carry, or if there are both a
// token and a password.
func CheckLogin(secret map[string][]byte) error {
	for _, key := range []string{"username", "password", "bearerToken"} {
		if bytes.ContainsAny(secret[key], "\r\n\x00") {
			return fmt.Errorf("the Secret's %s contains a line break or a zero byte: write it without one, for "+
				"example with printf in place of echo", key)
		}
	}
	if len(secret["bearerToken"]) > 0 && len(secret["username"])+len(secret["password"]) > 0 {
		return errors.New("the Secret holds both bearerToken and username or password: keep one of them")
	}
	return nil
}

// CheckKeys returns an error that names every key of a Secret that is not one of the known keys. An unknown key is
// usually a misspelled key. Without the error of CheckKeys, the remote would refuse the connection for a reason that
// misleads the user.
func CheckKeys(secret map[string][]byte, known []string) error {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(secret)) {
		switch {
		case slices.Contains(known, key):
		case slices.Contains(known, otherNames[key]):
			unknown = append(unknown, fmt.Sprintf("%q (write %s)", key, otherNames[key]))
		default:
			unknown = append(unknown, fmt.Sprintf("%q", key))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("the Secret has keys that Bunsen does not read: %s. Rename or remove them; Bunsen reads %s",
		strings.Join(unknown, ", "), strings.Join(known, ", "))
}

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
