package access

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/proxy"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Proxy is the proxy of a source.
type Proxy struct {
	url   *url.URL
	roots *x509.CertPool // If roots is nil, the certificate authorities of the system count.
}

// proxyPorts are the ports, by scheme, of proxies whose address has no port.
var proxyPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// ParseProxy reads the Secret of spec.proxySecretRef: address, and optionally username, password, and ca.crt for an
// https proxy. ParseProxy returns nil for nil.
func ParseProxy(secret map[string][]byte) (*Proxy, error) {
	if secret == nil {
		return nil, nil
	}
	if err := CheckKeys(secret, []string{"address", "ca.crt", "password", "username"}); err != nil {
		return nil, fmt.Errorf("reading the proxy: %w", err)
	}
	u, err := url.Parse(string(secret["address"]))
	switch {
	case err != nil || u.Host == "" || proxyPorts[u.Scheme] == "":
		return nil, errors.New("reading the proxy: address of the Secret must be http://host:port, https://host:port " +
			"or socks5://host:port")
	case u.User != nil:
		return nil, errors.New("reading the proxy: address of the Secret holds a user: write username and password " +
			"into keys of their own")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("reading the proxy: address of the Secret has more than a host and a port: remove " +
			"the rest")
	}
	if user, password := string(secret["username"]), string(secret["password"]); user != "" || password != "" {
		u.User = url.UserPassword(user, password)
	}
	config, err := TLS(secret)
	if err != nil {
		return nil, fmt.Errorf("reading the proxy: %w", err)
	}
	return &Proxy{url: &url.URL{Scheme: u.Scheme, Host: u.Host, User: u.User}, roots: config.RootCAs}, nil
}

// Connect returns how to connect through the proxy; nil for none.
func (p *Proxy) Connect() Connect {
	if p == nil {
		return nil
	}
	return p.DialContext
}

// String returns the address of the proxy without credentials.
func (p *Proxy) String() string { return p.url.Scheme + "://" + p.url.Host }

// DialContext connects to an address, `host:port`, through the proxy. The proxy resolves the host's name.
func (p *Proxy) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	var direct net.Dialer
	at := net.JoinHostPort(p.url.Hostname(), p.url.Port())
	if p.url.Port() == "" {
		at = net.JoinHostPort(p.url.Hostname(), proxyPorts[p.url.Scheme])
	}
	if p.url.Scheme == "socks5" || p.url.Scheme == "socks5h" {
		return p.socks(ctx, at, addr)
	}
	conn, err := direct.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, p.unreachable(ctx, err)
	}
	if p.url.Scheme == "https" {
		secure := tls.Client(conn, &tls.Config{
			ServerName: p.url.Hostname(), RootCAs: p.roots,
			MinVersion: tls.VersionTLS12,
		})
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(p.insecure(ctx, err), conn.Close())
		}
		conn = secure
	}
	through, err := p.connect(ctx, conn, addr)
	if err != nil {
		return nil, errors.Join(p.refused(ctx, addr, err), conn.Close())
	}
	return through, nil
}

// unreachable returns the error for a proxy that does not answer.
func (p *Proxy) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("connecting to the proxy %s: %w", p, context.Cause(ctx))
	}
	return fault.NewRetry(v1alpha1.ReasonUnreachable,
		fmt.Errorf("connecting to the proxy %s: correct address in the Secret of proxySecretRef, or start the "+
			"proxy (%w)", p, err))
}

// insecure returns the error for a failed TLS handshake with the proxy.
func (p *Proxy) insecure(ctx context.Context, err error) error {
	var noTLS tls.RecordHeaderError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &noTLS):
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("connecting to the proxy %s: it does not use "+
			"TLS at this port: write http:// into address in the Secret of proxySecretRef", p))
	case errors.As(err, &untrusted):
		return fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("connecting to the proxy %s: its "+
			"certificate is not trusted: put its authority into ca.crt in the Secret of proxySecretRef (%w)", p, err))
	}
	return p.unreachable(ctx, err)
}

// refused returns the error for a proxy that refuses to connect to an address. The result has the fault kind of err.
func (p *Proxy) refused(ctx context.Context, addr string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("connecting to %s through the proxy %s: %w", addr, p, context.Cause(ctx))
	}
	f := fault.Of(err, v1alpha1.ReasonUnreachable)
	return &fault.Error{Kind: f.Kind, Reason: f.Reason, Err: fmt.Errorf("connecting to %s through the proxy %s: %w",
		addr, p, err)}
}

// errCredentials is the error of a proxy that refuses the credentials.
var errCredentials = fault.NewStalled(v1alpha1.ReasonAuthentication,
	errors.New("the proxy requires other credentials: check username and password in the Secret of proxySecretRef"))

// socks connects through a SOCKS5 proxy, which resolves the host's name.
func (p *Proxy) socks(ctx context.Context, at, addr string) (net.Conn, error) {
	var auth *proxy.Auth
	if p.url.User != nil {
		password, _ := p.url.User.Password()
		auth = &proxy.Auth{User: p.url.User.Username(), Password: password}
	}
	direct := &firstHop{}
	d, err := proxy.SOCKS5("tcp", at, auth, direct)
	if err != nil {
		return nil, fmt.Errorf("connecting to the proxy %s: %w", p, err)
	}
	conn, err := d.(proxy.ContextDialer).DialContext(ctx, "tcp", addr)
	var answer string // The answer does not contain the name of the host.
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		answer = op.Err.Error()
	}
	switch {
	case err == nil:
		return conn, nil
	case direct.err != nil:
		return nil, p.unreachable(ctx, direct.err)
	case strings.Contains(answer, "authentication"):
		return nil, p.refused(ctx, addr, errCredentials)
	case strings.Contains(answer, "unexpected protocol version"), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF):
		return nil, p.refused(ctx, addr, errors.New("the answer is not one of a SOCKS5 proxy: correct address in the "+
			"Secret of proxySecretRef"))
	}
	return nil, p.refused(ctx, addr, fmt.Errorf("the proxy does not reach the host: correct the URL, or the rules of "+
		"the proxy (%s)", strings.TrimPrefix(answer, "unknown error ")))
}

// firstHop connects to a proxy, and stores the error of a failed connection.
type firstHop struct{ err error }

// Dial connects without a deadline. The library requires this method, but calls DialContext.
func (h *firstHop) Dial(network, addr string) (net.Conn, error) {
	return h.DialContext(context.Background(), network, addr)
}

// DialContext connects to the proxy.
func (h *firstHop) DialContext(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	conn, h.err = new(net.Dialer).DialContext(ctx, network, addr)
	return conn, h.err
}

// connect asks an HTTP proxy for a tunnel. connect closes the connection when ctx ends.
func (p *Proxy) connect(ctx context.Context, conn net.Conn, addr string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if p.url.User != nil {
		password, _ := p.url.User.Password()
		basic := http.Request{Header: http.Header{}}
		basic.SetBasicAuth(p.url.User.Username(), password)
		request.Header.Set("Proxy-Authorization", basic.Header.Get("Authorization"))
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, request)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, errors.New(
			"the answer is not one of an HTTP proxy: correct address in the Secret of proxySecretRef")
	case answer.StatusCode == http.StatusProxyAuthRequired:
		return nil, errCredentials
	case answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusMethodNotAllowed:
		return nil, fmt.Errorf("the proxy refuses the connection: let it allow CONNECT to this host and port (%d %s)",
			answer.StatusCode, http.StatusText(answer.StatusCode))
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the proxy does not reach the host: correct the URL, or the rules of the proxy (%d %s)",
			answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return tunnel{conn, in}, nil
}

// tunnel is a connection through a proxy. The reader contains the bytes that the host sent right after the answer of
// the proxy.
type tunnel struct {
	net.Conn
	in *bufio.Reader
}

// Read reads what the host sends.
func (t tunnel) Read(b []byte) (int, error) { return t.in.Read(b) }
