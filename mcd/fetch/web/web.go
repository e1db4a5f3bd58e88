package web

import (
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
	"time"

	"golang.org/x/net/http/httpproxy"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/artifact"
	"github.com/bunsen-os/bunsen/internal/artifact/registry"
	"github.com/bunsen-os/bunsen/mcd/fetch"
)

// The limits of a download.
const (
	// Stall is how long a server may send nothing.
	Stall = time.Minute
	// Rate is how many bytes a second a download may take, so that it leaves room for the node's own traffic.
	Rate = 64 << 20
	// slowest is how many bytes a second a server must send on average of a window. The window is windowStalls times the
	// longest time without a byte.
	slowest, windowStalls = 1 << 10, 10
)

// Client requests files from servers and registries. Client implements fetch.Web.
type Client struct {
	http   *http.Client
	logins artifact.Logins
	stall  time.Duration
	rate   int64
}

// New returns a client for the proxies and CAs of a config. The parameter stall is how long a server may send nothing,
// and rate the most bytes of a second.
func New(a fetch.Access, agent string, stall time.Duration, rate int64) *Client {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	for _, pem := range a.Authorities {
		roots.AppendCertsFromPEM(pem)
	}
	transport := &http.Transport{
		Proxy: proxyOf(a.Proxy), TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		DialContext:         (&net.Dialer{Timeout: stall}).DialContext,
		TLSHandshakeTimeout: stall, ResponseHeaderTimeout: stall,
		DisableKeepAlives: true, DisableCompression: true,
	}
	return &Client{&http.Client{Transport: named{transport, agent}, CheckRedirect: redirect}, a.Logins, stall, rate}
}

// Over returns a client that sends its requests with another client, and follows redirects only if that client does.
func Over(client *http.Client, agent string, stall time.Duration, rate int64) *Client {
	return &Client{&http.Client{Transport: named{client.Transport, agent}, CheckRedirect: client.CheckRedirect}, nil, stall, rate}
}

// named sends the name of the program with each request.
type named struct {
	http.RoundTripper
	agent string
}

// RoundTrip implements http.RoundTripper.
func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("User-Agent", n.agent)
	return n.RoundTripper.RoundTrip(r)
}

// redirect implements http.Client.CheckRedirect.
func redirect(to *http.Request, via []*http.Request) error {
	to.Header.Del("Referer") // The Referer may contain a query with a token.
	return fetch.CheckRedirect(via[len(via)-1].URL, to.URL, len(via))
}

// proxyOf returns the proxies of a config or, if it has none, those of the environment.
func proxyOf(p ign.Proxy) func(*http.Request) (*url.URL, error) {
	if p.HTTPProxy == nil && p.HTTPSProxy == nil {
		return http.ProxyFromEnvironment
	}
	c := httpproxy.Config{}
	if p.HTTPProxy != nil {
		c.HTTPProxy = *p.HTTPProxy
	}
	if p.HTTPSProxy != nil {
		c.HTTPSProxy = *p.HTTPSProxy
	}
	var except []string
	for _, host := range p.NoProxy {
		except = append(except, string(host))
	}
	c.NoProxy = strings.Join(except, ",")
	choose := c.ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
}

// Get implements fetch.Web.
func (c *Client) Get(ctx context.Context, address string, headers map[string]string) (fetch.Answer, io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	// A registry sends a manifest and tokens before the file. Each answer has its own limits, but bodies have not.
	const answers = 4
	timer := time.AfterFunc(answers*c.stall, func() { cancel(fmt.Errorf("the server sent no file within %s", answers*c.stall)) })
	answer, err := c.request(ctx, address, headers)
	timer.Stop()
	if cause := context.Cause(ctx); cause != nil && err == nil {
		answer.Body.Close() //nolint:errcheck,gosec // the request has ended
		err = cause
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return fetch.Answer{}, nil, withoutAddress(err)
	}
	header := http.Header(answer.Header)
	head := fetch.Answer{Status: answer.Status, Length: answer.Length, Range: header.Get("Content-Range"), Validator: validator(header)}
	b := &body{from: answer.Body, cancel: cancel, done: ctx.Done(), stall: c.stall, rate: c.rate, began: time.Now()}
	b.window = b.began
	b.timer = time.AfterFunc(c.stall, func() { cancel(fmt.Errorf("the server sent nothing for %s", c.stall)) })
	b.cause = func() error { return context.Cause(ctx) }
	return head, b, nil
}

// request requests an address, or the file of an artifact.
func (c *Client) request(ctx context.Context, address string, headers map[string]string) (registry.Answer, error) {
	a, is, err := machineconfig.ArtifactOf(address)
	if is && err == nil {
		return c.reader().Open(ctx, a, headers)
	}
	if err != nil {
		return registry.Answer{}, err
	}
	return sender{c.http}.Send(ctx, address, headers)
}

// reader reads registries.
func (c *Client) reader() registry.Reader {
	return registry.Reader{Client: sender{c.http}, Logins: c.logins}
}

// sender implements registry.Client.
type sender struct{ http *http.Client }

// Send implements registry.Client.
func (s sender) Send(ctx context.Context, address string, headers map[string]string) (registry.Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return registry.Answer{}, errors.New("the address is not a URL")
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return registry.Answer{}, err
	}
	return registry.Answer{Status: answer.StatusCode, Length: answer.ContentLength, Header: answer.Header, Body: answer.Body}, nil
}

// Resolve returns an artifact with the digest that its tag names now.
func (c *Client) Resolve(ctx context.Context, a machineconfig.Artifact) (machineconfig.Artifact, error) {
	ctx, cancel := context.WithTimeout(ctx, c.stall)
	defer cancel()
	a, err := c.reader().Resolve(ctx, a)
	return a, withoutAddress(err)
}

// withoutAddress removes the address from an error, because its query may contain a token.
func withoutAddress(err error) error {
	var about *url.Error
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}

// validator returns what If-Range can compare: a strong ETag, or a date.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return h.Get("Last-Modified")
}

// body is the body of an answer. Reading it fails if the server stalls or is slower than slowest, and takes at least as
// long as the rate demands.
type body struct {
	from   io.ReadCloser
	cancel context.CancelCauseFunc
	cause  func() error
	done   <-chan struct{}
	stall  time.Duration
	timer  *time.Timer
	rate   int64
	began  time.Time
	read   int64
	// window is when the current window began, and before how many bytes had been read then.
	window time.Time
	before int64
}

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	b.timer.Reset(b.stall)
	n, err := b.from.Read(into)
	b.timer.Stop()
	if cause := b.cause(); err != nil && cause != nil { // An end after the request ended is no end of the file.
		err = cause
	}
	b.read += int64(n)
	if err == nil {
		b.slowDown()
		err = b.checkWindow(time.Now())
	}
	return n, err
}

// slowDown waits until the bytes so far are within the rate, or until the request ends.
func (b *body) slowDown() {
	due := time.Duration(float64(b.read) / float64(b.rate) * float64(time.Second))
	if early := due - time.Since(b.began); early > 0 {
		select {
		case <-time.After(early):
		case <-b.done:
		}
	}
}

// checkWindow returns an error if a window has ended, and the server has sent too little in it. A server that sends a byte
// now and then would hold a node without end.
func (b *body) checkWindow(now time.Time) error {
	length := now.Sub(b.window)
	if length < windowStalls*b.stall {
		return nil
	}
	got := b.read - b.before
	b.window, b.before = now, b.read
	if least := int64(length.Seconds() * slowest); got < least {
		return fmt.Errorf("the server sent %d bytes in %s, and at least %d are necessary", got, length.Round(time.Second), least)
	}
	return nil
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.timer.Stop()
	err := b.from.Close()
	b.cancel(nil)
	return err
}
