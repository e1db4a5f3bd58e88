package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/bunsen-os/bunsen/source"
)

// overhead is how many bytes a server may send besides a pack: refs, progress, framing.
const overhead = 16 << 20

// newHTTP returns a function that opens sessions over https or http.
func newHTTP(a source.Address, secret map[string][]byte, limit int64) (func(context.Context) (wire, error), error) {
	auth, err := httpAuth(a, secret)
	if err != nil {
		return nil, err
	}
	roots, err := rootsOf(secret)
	if err != nil {
		return nil, err
	}
	certificates, err := clientCertificates(secret)
	if err != nil {
		return nil, err
	}
	port := 0
	if a.Port != "" {
		if port, err = strconv.Atoi(a.Port); err != nil {
			return nil, fmt.Errorf("reading port %q: %w", a.Port, err)
		}
	}
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return func(context.Context) (wire, error) {
		base := &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			TLSClientConfig:     &tls.Config{RootCAs: roots, Certificates: certificates, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: 15 * time.Second,
			ForceAttemptHTTP2:   true,
		}
		client := &http.Client{Transport: &limitedTransport{base, limit + overhead}}
		at := &transport.Endpoint{Protocol: a.Scheme, Host: host, Port: port, Path: a.Path}
		session, err := githttp.NewClient(client).NewUploadPackSession(at, auth)
		if err != nil {
			return nil, err
		}
		return httpWire{session, base}, nil
	}, nil
}

// httpAuth returns the credentials of the Secret, otherwise those of the URL, or nil.
func httpAuth(a source.Address, secret map[string][]byte) (transport.AuthMethod, error) {
	token, user, password := string(secret["bearerToken"]), string(secret["username"]), string(secret["password"])
	switch {
	case token != "" && (user != "" || password != ""):
		return nil, errors.New("the Secret holds both bearerToken and username or password: keep one of them")
	case token != "":
		return &githttp.TokenAuth{Token: token}, nil
	case user != "" || password != "":
		return &githttp.BasicAuth{Username: user, Password: password}, nil
	case a.User != "" || a.Password != "":
		return &githttp.BasicAuth{Username: a.User, Password: a.Password}, nil
	}
	return nil, nil
}

// rootsOf returns the system's certificate authorities and those of the Secret. It returns nil if the Secret has none.
func rootsOf(secret map[string][]byte) (*x509.CertPool, error) {
	pem, ok := secret["ca.crt"]
	if !ok {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("the Secret's ca.crt holds no certificate: it must be PEM, -----BEGIN CERTIFICATE-----")
	}
	return roots, nil
}

// clientCertificates returns the client certificate of the Secret; nil if the Secret has none.
func clientCertificates(secret map[string][]byte) ([]tls.Certificate, error) {
	certificate, key := secret["tls.crt"], secret["tls.key"]
	switch {
	case len(certificate) == 0 && len(key) == 0:
		return nil, nil
	case len(certificate) == 0 || len(key) == 0:
		return nil, errors.New("the Secret has only one of tls.crt and tls.key: a client certificate needs both")
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate tls.crt and tls.key of the Secret: %w", err)
	}
	return []tls.Certificate{pair}, nil
}

// httpWire closes its connections at the end of the session, so that a Remote keeps none open.
type httpWire struct {
	transport.UploadPackSession
	base *http.Transport
}

// Close closes all connections.
func (w httpWire) Close() error {
	err := w.UploadPackSession.Close()
	w.base.CloseIdleConnections()
	return err
}

// errNoGit is returned for a response that is not from a git server. It contains no part of the response, because a URL
// may lead to any service.
var errNoGit = errors.New("the answer is not one of a git server (smart HTTP)")

// limitedTransport limits the size of each response body, and drops the bodies of responses that no git client reads.
type limitedTransport struct {
	http.RoundTripper
	bytes int64
}

// RoundTrip sends the request and limits the body of the response. If the response is not a success, it drops the body
// and the status text, because they would appear in a status. A success must have the content type of git.
func (l *limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
			return nil, &busyError{code: res.StatusCode, after: retryAfter(res.Header.Get("Retry-After"), time.Now())}
		}
		res.Body, res.ContentLength, res.Status = http.NoBody, 0, fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode))
		return res, nil
	}
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/x-git-upload-pack-") {
		_ = res.Body.Close()
		return nil, errNoGit
	}
	res.Body = &limitedReader{res.Body, l.bytes}
	return res, nil
}
