package download

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"golang.org/x/net/http/httpproxy"
)

// The limits of a download onto a node.
const (
	// Stall is for a server that sends nothing.
	Stall = time.Minute
	// Rate is in bytes a second, and leaves room for the node's own traffic.
	Rate = 64 << 20
	// the bytes a second on average of a window, and the window in times without a byte
	slowest, windowStalls = 1 << 10, 10
)

// Options are how a client reaches servers.
type Options struct {
	// Proxy of a config; zero for that of the environment.
	Proxy ign.Proxy
	// Authorities are further PEM certificates of CAs.
	Authorities [][]byte
	Logins      Logins
	// Failures remembers which Mirrors failed, unless nil.
	Mirrors  Mirrors
	Failures *PlaceFailures
	// Agent names the program.
	Agent string
	// Stall is for a server that sends nothing, Rate in bytes a second.
	Stall time.Duration
	Rate  int64
	// NoLinkLocal refuses addresses of the local link, where clouds serve credentials of machines.
	NoLinkLocal bool
}

// Client requests files from servers and registries.
type Client struct {
	http    *http.Client
	options Options
	stall   time.Duration
	rate    int64
}

// NewFailures returns a memory of mirrors that failed.
func NewFailures() *PlaceFailures { return &PlaceFailures{Now: time.Now} }

// New returns a client.
func New(o Options) *Client {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	for _, pem := range o.Authorities {
		roots.AppendCertsFromPEM(pem)
	}
	dialer := &net.Dialer{Timeout: o.Stall}
	if o.NoLinkLocal {
		dialer.Control = refuseLinkLocal
	}
	transport := &http.Transport{
		Proxy: proxyOf(o.Proxy), TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: o.Stall, ResponseHeaderTimeout: o.Stall,
		DisableKeepAlives: true, DisableCompression: true,
	}
	return &Client{&http.Client{Transport: named{transport, o.Agent}, CheckRedirect: redirect}, o, o.Stall, o.Rate}
}

// refuseLinkLocal implements net.Dialer.Control.
func refuseLinkLocal(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", address, err)
	}
	if to.Addr().Unmap().IsLinkLocalUnicast() {
		return fmt.Errorf("%s is an address of the local link, and no registry is there", to.Addr())
	}
	return nil
}

// Over returns a client that sends its requests with another client, and follows redirects only if that client does.
func Over(client *http.Client, agent string, stall time.Duration, rate int64) *Client {
	return &Client{
		&http.Client{Transport: named{client.Transport, agent}, CheckRedirect: client.CheckRedirect},
		Options{},
		stall, rate,
	}
}

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
	// The library keeps the credentials for other ports and for subdomains.
	if first := via[0].URL; to.URL.Host != first.Host || to.URL.Scheme != first.Scheme {
		to.Header.Del("Authorization")
	}
	return checkRedirect(via[len(via)-1].URL, to.URL, len(via))
}

const maxRedirects = 10

// checkRedirect returns why not to follow one.
func checkRedirect(from, to *url.URL, count int) error {
	at := machineconfig.ShownAddress(to.String())
	switch {
	case count > maxRedirects:
		return fmt.Errorf("the server redirects more than %d times", maxRedirects)
	case from.Scheme == "https" && to.Scheme != "https":
		return fmt.Errorf("the server redirects from https to %s: name that address in the config if you trust the "+
			"network", at)
	case machineconfig.CheckAddress(to.String()) != nil:
		return fmt.Errorf("the server redirects to %s, which is not an address for downloads", at)
	}
	return nil
}

// proxyOf returns the proxies of a config or, without any, those of the environment.
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

// Get requests an address, or the file of the artifact that it names. The caller closes the body, which fails if the
// server sends nothing for a while.
func (c *Client) Get(ctx context.Context, address string,
	headers map[string]string,
) (ArtifactAnswer, io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	// A registry sends a manifest and tokens before the file. Each answer has its own limits, but bodies have not.
	const answers = 4
	patience := answers * c.stall * time.Duration(c.places(address))
	timer := time.AfterFunc(patience, func() { cancel(fmt.Errorf("the server sent no file within %s", patience)) })
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
		return ArtifactAnswer{}, nil, err
	}
	header := http.Header(answer.Header)
	head := ArtifactAnswer{
		Status: answer.Status, Length: answer.Length, Range: header.Get("Content-Range"),
		Validator: validator(header), Layer: answer.Layer,
	}
	b := &body{from: answer.Body, cancel: cancel, done: ctx.Done(), stall: c.stall, rate: c.rate, began: time.Now()}
	b.window = b.began
	b.timer = time.AfterFunc(c.stall, func() { cancel(fmt.Errorf("the server sent nothing for %s", c.stall)) })
	b.cause = func() error { return context.Cause(ctx) }
	if answer.From == "" {
		return head, b, nil
	}
	return head, newChecked(b, answer, c.options.Failures), nil
}

func newChecked(body io.ReadCloser, a RegistryAnswer, failures *PlaceFailures) *checked {
	c := &checked{ReadCloser: body, from: a.From, failures: failures}
	if a.Status == http.StatusOK {
		c.digest = a.Layer.Digest
		c.sum = sha256.New()
		if strings.HasPrefix(c.digest, "sha512:") {
			c.sum = sha512.New()
		}
	}
	return c
}

func (c *Client) places(address string) int {
	a, is, err := machineconfig.ArtifactOf(address)
	if !is || err != nil {
		return 1
	}
	all, _ := c.options.Mirrors.Of(a)
	return max(1, len(all))
}

func (c *Client) request(ctx context.Context, address string, headers map[string]string) (RegistryAnswer, error) {
	a, is, err := machineconfig.ArtifactOf(address)
	if is && err == nil {
		return c.reader().Open(ctx, a, headers)
	}
	if err != nil {
		return RegistryAnswer{}, err
	}
	return sender{c.http}.Send(ctx, address, headers)
}

func (c *Client) reader() RegistryReader {
	return RegistryReader{
		Client: sender{c.http}, Logins: c.options.Logins, Mirrors: c.options.Mirrors,
		Failures: c.options.Failures,
	}
}

type sender struct{ http *http.Client }

// Send implements RegistryClient.
func (s sender) Send(ctx context.Context, address string, headers map[string]string) (RegistryAnswer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return RegistryAnswer{}, errors.New("the address is not a URL")
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return RegistryAnswer{}, withoutAddress(err)
	}
	return RegistryAnswer{
		Status: answer.StatusCode, Length: answer.ContentLength, Header: answer.Header,
		Body: answer.Body,
	}, nil
}

// File requests the file of an artifact, for its size and digest. The body is not verified.
func (c *Client) File(ctx context.Context, a machineconfig.Artifact) (Layer, io.ReadCloser, error) {
	answer, body, err := c.Get(ctx, a.Source(), nil)
	if err != nil {
		return Layer{}, nil, err
	}
	if answer.Status != http.StatusOK {
		body.Close() //nolint:errcheck,gosec // only read
		return Layer{}, nil, &StatusError{Status: answer.Status, What: "file"}
	}
	return answer.Layer, body, nil
}

// Resolve returns an artifact with the digest that its tag names now.
func (c *Client) Resolve(ctx context.Context, a machineconfig.Artifact) (machineconfig.Artifact, error) {
	ctx, cancel := context.WithTimeout(ctx, c.stall)
	defer cancel()
	return c.reader().Resolve(ctx, a)
}

// ResolveImage returns an image with the digest that its tag names now, as RegistryReader.ResolveImage does.
func (c *Client) ResolveImage(ctx context.Context, a machineconfig.Artifact) (machineconfig.Artifact, error) {
	ctx, cancel := context.WithTimeout(ctx, c.stall)
	defer cancel()
	return c.reader().ResolveImage(ctx, a)
}

// withoutAddress removes the address, because its query may contain a token.
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

// body fails if the server stalls or is slower than slowest, and takes at least as long as the rate demands.
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
	// when the current window began, and the bytes until then
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

// slowDown waits until the bytes so far are within the rate, or the request ends.
func (b *body) slowDown() {
	due := time.Duration(float64(b.read) / float64(b.rate) * float64(time.Second))
	if early := due - time.Since(b.began); early > 0 {
		select {
		case <-time.After(early):
		case <-b.done:
		}
	}
}

// checkWindow fails if the server sent too little in a window that ended: with a byte now and then, it would hold a
// node without end.
func (b *body) checkWindow(now time.Time) error {
	length := now.Sub(b.window)
	if length < windowStalls*b.stall {
		return nil
	}
	got := b.read - b.before
	b.window, b.before = now, b.read
	if least := int64(length.Seconds() * slowest); got < least {
		return fmt.Errorf("the server sent %d bytes in %s, and at least %d are necessary", got,
			length.Round(time.Second), least)
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
