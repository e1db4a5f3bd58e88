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

// overhead is what a server may send beside a pack: refs, progress, framing.
const overhead = 16 << 20

// newHTTP prepares conversations over https or http.
func newHTTP(a source.Address, secret map[string][]byte, limit int64) (func(context.Context) (wire, error), error) {
	auth, err := httpAuth(a, secret)
	if err != nil {
		return nil, err
	}
	roots, err := rootsOf(secret)
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
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: 15 * time.Second,
			ForceAttemptHTTP2:   true,
		}
		client := &http.Client{Transport: &limited{base, limit + overhead}}
		at := &transport.Endpoint{Protocol: a.Scheme, Host: host, Port: port, Path: a.Path}
		session, err := githttp.NewClient(client).NewUploadPackSession(at, auth)
		if err != nil {
			return nil, err
		}
		return httpWire{session, base}, nil
	}, nil
}

// httpAuth finds the credentials: the Secret's, else those in the URL. A nil AuthMethod is none.
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

// rootsOf returns the system's certificate authorities and the Secret's, or nil for the system's alone.
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

// httpWire closes its connections with the conversation, so that a Remote leaves nothing behind.
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

// errNoGit is an answer that no git server gives. Nothing of such an answer is shown: a URL may lead to any service.
var errNoGit = errors.New("the answer is not one of a git server (smart HTTP)")

// limited bounds each answer's body, and drops the bodies of answers that no git client reads.
type limited struct {
	http.RoundTripper
	bytes int64
}

// RoundTrip sends the request and caps what is read of the answer. It drops the body and the words of each answer that
// is not a success, because they would appear in a status. A success must have the content type of git.
func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		res.Body, res.ContentLength, res.Status = http.NoBody, 0, fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode))
		return res, nil
	}
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/x-git-upload-pack-") {
		_ = res.Body.Close()
		return nil, errNoGit
	}
	res.Body = &capped{res.Body, l.bytes}
	return res, nil
}
