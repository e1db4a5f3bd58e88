package dial

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// TLS returns the settings of a client: the authorities of the system and those of the Secret's ca.crt, and the client
// certificate in tls.crt and tls.key. An error says which key is wrong.
func TLS(secret map[string][]byte) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if pem, ok := secret["ca.crt"]; ok {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, errors.New("the Secret's ca.crt holds no certificate: it must be PEM, -----BEGIN CERTIFICATE-----")
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
		return nil, fmt.Errorf("reading the client certificate tls.crt and tls.key of the Secret: %w", err)
	}
	out.Certificates = []tls.Certificate{pair}
	return out, nil
}

// Transport returns an HTTP transport with the certificates of a Secret. It connects through the proxy of the environment.
func Transport(secret map[string][]byte) (*http.Transport, error) {
	config, err := TLS(secret)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout:       30 * time.Second,
		ForceAttemptHTTP2:     true,
	}, nil
}

// Client returns a client of an API, with the settings of Transport. It follows no redirect, because a redirect could lead
// credentials to another host.
func Client(secret map[string][]byte) (*http.Client, error) {
	t, err := Transport(secret)
	if err != nil {
		return nil, err
	}
	t.DisableKeepAlives = true // a client sends few requests, and no one closes it
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}, nil
}
