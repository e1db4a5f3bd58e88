package notify

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
)

const (
	// with its answer
	requestTimeout = 15 * time.Second
	// in bytes: a page of 100 long comments is smaller
	maxAnswer = 16 << 20
	// for a receiver to delay the next attempt
	maxRetryAfter = time.Hour
)

// allowed requires that the hosts of a Secret list the host and the port of a URL.
func allowed(u *url.URL, hosts []string) error {
	to, at := access.RecipientsOf(source.Address{}, map[string][]byte{
		access.HostsKey: []byte(strings.Join(hosts, " ")),
	}), access.AddressOf(u)
	ip, err := netip.ParseAddr(u.Hostname())
	switch {
	case to.Allow(at):
		return nil
	case u.Scheme == "http" && (err != nil || !ip.IsLoopback()):
		return errors.New("the notifier sends nothing over http://, because it is not encrypted: use https://")
	}
	return fmt.Errorf("the key \"hosts\" of the Secret does not list %s, so the notifier sends nothing there: add it",
		access.Endpoint(at))
}

// guarded sends requests to the listed hosts only.
type guarded struct {
	base  http.RoundTripper
	hosts []string
	now   func() time.Time

	mu sync.Mutex
	// from the receiver's header Retry-After
	notBefore time.Time
}

func (g *guarded) close() {
	if t, ok := g.base.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (g *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := allowed(req.URL, g.hosts); err != nil {
		return nil, err
	}
	res, err := g.base.RoundTrip(req)
	if err != nil {
		return nil, err //nolint:wrapcheck // a transport returns the error of the connection
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		_ = res.Body.Close() // The answer is not used.
		return nil, fmt.Errorf("%s answers %d and redirects; the notifier follows no redirect: correct the address "+
			"or the repository's URL", req.URL.Host, res.StatusCode)
	}
	if res.StatusCode >= 400 {
		g.delay(res.Header)
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxAnswer), res.Body}
	return res, nil
}

// delay records Retry-After: seconds, or a date. GitHub sends the end of a rate limit in another header, in seconds
// since 1970.
func (g *guarded) delay(h http.Header) {
	value, now := h.Get("Retry-After"), g.now()
	if reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); value == "" && err == nil &&
		h.Get("X-RateLimit-Remaining") == "0" {
		value = time.Unix(reset, 0).UTC().Format(http.TimeFormat)
	}
	if value == "" {
		return
	}
	at, err := http.ParseTime(value)
	if seconds, errNumber := strconv.Atoi(strings.TrimSpace(value)); errNumber == nil && seconds >= 0 {
		at, err = now.Add(time.Duration(min(seconds, int(maxRetryAfter.Seconds())))*time.Second), nil
	}
	if err != nil {
		return
	}
	if latest := now.Add(maxRetryAfter); at.After(latest) {
		at = latest
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notBefore = at
}

// retryAfter is the time before which no request should follow; zero for none.
func (g *guarded) retryAfter() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.notBefore
}
