package access

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/source"
)

// Connect opens a connection to an address, as net.Dialer does, for example through a proxy.
type Connect func(ctx context.Context, network, addr string) (net.Conn, error)

// Transport is an HTTP transport for the requests of one source. It presents the client certificate of the Secret to
// the recipients of the Secret's credentials only, and never after a redirect to another host or port. It does not
// unpack compressed answers, because their limits count the bytes that a server sends.
type Transport struct {
	// certified has the client certificate; nil if the Secret has none. bare has no certificate.
	certified, bare *http.Transport
	to              Recipients
}

// NewConnect returns a transport with the certificates of a Secret, for the source at a URL. It connects through the
// parameter connect, or through the proxy of the environment if connect is nil. An error says which key of the Secret
// is wrong.
func NewConnect(url source.Address, secret map[string][]byte, connect Connect) (*Transport, error) {
	config, err := TLS(secret)
	if err != nil {
		return nil, err
	}
	certificates := config.Certificates
	config.Certificates = nil
	bare := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    15 * time.Second,
		ResponseHeaderTimeout:  time.Minute,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
	}
	if connect != nil {
		bare.Proxy, bare.DialContext = nil, connect
	}
	t := &Transport{bare: bare, to: RecipientsOf(url, secret)}
	if len(certificates) > 0 {
		t.certified = bare.Clone()
		t.certified.TLSClientConfig.Certificates = certificates
		if connect == nil {
			// A transport presents its certificate to an https proxy too.
			t.certified.Proxy, t.certified.DialContext = nil, (&Proxy{roots: config.RootCAs}).fromEnvironment
		}
	}
	return t, nil
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	through := t.bare
	if t.certified != nil && stayed(r) && t.to.Allow(AddressOf(r.URL)) {
		through = t.certified
	}
	connected := false // Errors before that, such as those of TLS, have no part of an answer.
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }}
	res, err := through.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil && connected {
		err = withoutAnswer(err)
	}
	if err != nil {
		return nil, err
	}
	res.Body = body{res.Body}
	return res, nil
}

// errNoHTTP stands for errors of the library that contain a part of what a server sent.
var errNoHTTP = errors.New("the server, or a proxy before it, ended the connection, or its answer is not one of HTTP")

// withoutAnswer returns errNoHTTP for an error whose text may contain a part of an answer: a URL may lead to any
// service, and many people read the status of a GitSource.
func withoutAnswer(err error) error {
	var connection net.Error
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	var own *fault.Error
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled),
		errors.As(err, &connection), errors.As(err, &record), errors.As(err, &certificate), errors.As(err, &alert),
		errors.As(err, &own), errors.Is(err, http.ErrSchemeMismatch):
		return err
	}
	return errNoHTTP
}

// body is the body of an answer.
type body struct{ io.ReadCloser }

// Read implements io.Reader. Its errors contain no part of the answer.
func (b body) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err != nil && err != io.EOF { //nolint:errorlint // a reader returns io.EOF itself
		err = withoutAnswer(err)
	}
	return n, err
}

// CloseIdleConnections closes the connections without a request.
func (t *Transport) CloseIdleConnections() {
	t.bare.CloseIdleConnections()
	if t.certified != nil {
		t.certified.CloseIdleConnections()
	}
}

// WithoutKeepAlive closes each connection after its answer, for users that have no Close. It returns the transport.
func (t *Transport) WithoutKeepAlive() *Transport {
	t.bare.DisableKeepAlives = true
	if t.certified != nil {
		t.certified.DisableKeepAlives = true
	}
	return t
}

// stayed reports whether no redirect has led a request to another protocol, host or port.
func stayed(r *http.Request) bool {
	at := AddressOf(r.URL)
	for r.Response != nil {
		r = r.Response.Request
		if !SameEndpoint(AddressOf(r.URL), at) {
			return false
		}
	}
	return true
}

// Client returns an HTTP client for an API, with the settings of New. The client follows no redirect, because a
// redirect could send the credentials to another host.
func Client(url source.Address, secret map[string][]byte, connect Connect) (*http.Client, error) {
	t, err := NewConnect(url, secret, connect)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport:     t.WithoutKeepAlive(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}, nil
}

// fromEnvironment connects through the proxy of the environment for https, or directly if there is none.
func (p *Proxy) fromEnvironment(ctx context.Context, network, addr string) (net.Conn, error) {
	at, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: addr}})
	if err != nil {
		return nil, err
	}
	if at == nil {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return (&Proxy{url: at, roots: p.roots}).DialContext(ctx, network, addr)
}
