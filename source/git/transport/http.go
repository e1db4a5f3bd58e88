package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/memory"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// longestRetryAfter limits how long a server can delay the next request.
const longestRetryAfter = time.Hour

// BusyError is the error for a server that answers that it does not serve requests now. The text omits how long to
// wait, because this time differs in each answer.
type BusyError struct {
	code  int
	after time.Duration
}

// Error returns the status of the answer.
func (e *BusyError) Error() string { return fmt.Sprintf("%d %s", e.code, http.StatusText(e.code)) }

// IsBusy returns a function that reports whether an error is an answer with the status code.
func IsBusy(code int) func(error) bool {
	return func(err error) bool {
		var busy *BusyError
		return errors.As(err, &busy) && busy.code == code
	}
}

// WaitOf returns how long the server asks the client to wait, or 0.
func WaitOf(err error) time.Duration {
	var busy *BusyError
	if errors.As(err, &busy) {
		return busy.after
	}
	return 0
}

// RetryAfter reads the header Retry-After, which is a number of seconds or a date (RFC 9110, 10.2.3). RetryAfter
// returns 0 for an invalid value and for a date in the past, and at most longestRetryAfter.
func RetryAfter(header string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 63); err == nil {
		wait = time.Duration(min(seconds, uint64(longestRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), longestRetryAfter)
}

// newHTTP returns a dialer for https and http.
func newHTTP(a source.Address, secret map[string][]byte, o Options) (Dialer, error) {
	auth, err := Login(a, secret)
	if err != nil {
		return nil, err
	}
	if o.HTTP == nil {
		return nil, errors.New("this program reads no repository over https")
	}
	if _, err := o.HTTP(); err != nil {
		return nil, err
	}
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if a.Port != "" {
		host += ":" + a.Port
	}
	at, err := url.Parse(a.Scheme + "://" + host + a.Path)
	if err != nil {
		return nil, errors.New("the host or the path of the URL is invalid")
	}
	return &httpDialer{
		base: at, auth: auth, to: access.RecipientsOf(a, secret), http: o.HTTP,
		limit: o.PackBytes + overhead, servers: o.Servers, key: o.Key,
	}, nil
}

// httpDialer opens sessions over https and http.
type httpDialer struct {
	base    *url.URL
	auth    githttp.AuthMethod
	to      access.Recipients
	http    func() (HTTP, error)
	limit   int64
	servers *Servers
	key     string

	mu    sync.Mutex
	known *advertised // known is nil before the first session in version 2.
}

// advertised is the first message of a server that speaks version 2, and the address of the repository after redirects.
// The message does not depend on the content of the repository.
type advertised struct {
	base    string
	message []byte
}

// Dial opens a session. Dial sends a request only if no earlier session has found that the server speaks version 2.
func (d *httpDialer) Dial(ctx context.Context) (Session, error) {
	transport, err := d.http()
	if err != nil {
		return nil, err
	}
	s := &httpSession{dialer: d, transport: transport, client: &http.Client{
		Transport:     &limitedTransport{transport, d.limit},
		CheckRedirect: checkRedirect,
	}}
	if s.server = d.recall(); s.server != nil {
		s.remembered = true
		return s, nil
	}
	if err := s.advertise(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// checkRedirect allows redirects to other paths of the same host and port.
func checkRedirect(next *http.Request, via []*http.Request) error {
	switch {
	case access.CheckRedirect(via[0].URL, next.URL) != nil:
		return access.ErrElsewhere
	case len(via) >= 5 || next.Method != http.MethodGet || !strings.HasSuffix(next.URL.Path, infoRefs):
		return errRedirect
	}
	return nil
}

// authorize adds the credentials to a request, if they may go to its host.
func (d *httpDialer) authorize(r *http.Request) {
	if d.auth != nil && d.to.Allow(access.AddressOf(r.URL)) {
		d.auth.SetAuth(r)
	}
}

const (
	service  = "git-upload-pack"
	infoRefs = "/info/refs"
	version2 = "version=2"
)

// httpSession is a session over http. httpSession keeps no connection open after its end.
type httpSession struct {
	dialer    *httpDialer
	transport HTTP
	client    *http.Client
	server    *advertised
	rest      io.ReadCloser // what follows the message; nil if server is from an earlier session
	// remembered is true if server is from an earlier session.
	remembered bool
}

// advertise reads the first message of the server.
func (s *httpSession) advertise(ctx context.Context) error {
	at := strings.TrimSuffix(s.dialer.base.String(), "/") + infoRefs + "?service=" + service
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	s.dialer.authorize(r)
	r.Header.Set("Git-Protocol", version2)
	r.Header.Set("User-Agent", userAgent)
	res, err := s.client.Do(r)
	if err != nil {
		return err
	}
	message, err := io.ReadAll(io.LimitReader(res.Body, memory.SmallAnswer))
	if err != nil {
		return errors.Join(err, res.Body.Close())
	}
	final, _, _ := strings.Cut(res.Request.URL.String(), infoRefs+"?")
	s.server, s.rest = &advertised{base: final, message: message}, res.Body
	if s.isVersion2() {
		s.dialer.remember(s.server)
	}
	return nil
}

// remember stores the first message of the server for later sessions; nil deletes it. Later dialers do not get the
// message of a server that redirects, because this server may redirect to another address by then.
func (d *httpDialer) remember(server *advertised) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = server
	if server != nil && server.base != strings.TrimSuffix(d.base.String(), "/") {
		server = nil
	}
	d.servers.put(d.key, server)
}

// recall returns the first message of the server that an earlier session stored, or nil.
func (d *httpDialer) recall() *advertised {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = d.servers.get(d.key)
	}
	return d.known
}

// Advertisement returns the first message of the server.
func (s *httpSession) Advertisement() io.Reader {
	message := bytes.NewReader(s.server.message)
	if s.rest == nil {
		return message
	}
	return io.MultiReader(message, s.rest)
}

// Request sends a request. If the server refuses the request, and server is from an earlier session, Request begins a
// new session, because the repository may have moved.
func (s *httpSession) Request(ctx context.Context, body []byte) (io.ReadCloser, error) {
	answer, err := s.post(ctx, body)
	if err == nil || !s.remembered || ctx.Err() != nil || IsBusy(http.StatusTooManyRequests)(err) ||
		IsBusy(http.StatusServiceUnavailable)(err) {
		return answer, err
	}
	s.remembered = false // then rest is nil
	if s.advertise(ctx) != nil || !s.isVersion2() {
		return nil, err
	}
	return s.post(ctx, body)
}

// isVersion2 reports whether the server speaks version 2 of the protocol.
func (s *httpSession) isVersion2() bool {
	v2, _, err := IsVersion2(bytes.NewReader(s.server.message))
	return err == nil && v2
}

func (s *httpSession) post(ctx context.Context, body []byte) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.base+"/"+service, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	s.dialer.authorize(r)
	r.Header.Set("Content-Type", "application/x-"+service+"-request")
	r.Header.Set("Accept", "application/x-"+service+"-result")
	r.Header.Set("User-Agent", userAgent)
	if s.isVersion2() {
		r.Header.Set("Git-Protocol", version2)
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.dialer.remember(nil)
		return nil, err
	}
	return res.Body, nil
}

// CheckAdvice is what the errors for refused credentials say.
const CheckAdvice = access.CheckAdvice

// userAgent names this program to git hosts. Some hosts treat a program with another name as a browser.
const userAgent = "git/bunsen"

// Explain returns the error unchanged, because a server sends its errors in its answers. Explain deletes the remembered
// message of the server, because the server may speak another version of the protocol by now.
func (s *httpSession) Explain(err error) error {
	s.dialer.remember(nil)
	return err
}

// Close closes all connections.
func (s *httpSession) Close() error {
	var err error
	if s.rest != nil {
		err = s.rest.Close()
	}
	s.transport.CloseIdleConnections()
	return err
}

// Login returns the credentials of the Secret. If the Secret has no credentials, Login returns the credentials in the
// URL, or nil.
func Login(a source.Address, secret map[string][]byte) (githttp.AuthMethod, error) {
	if err := access.CheckLogin(secret); err != nil {
		return nil, err
	}
	token, user, password := string(secret["bearerToken"]), string(secret["username"]), string(secret["password"])
	switch {
	case token != "":
		return &githttp.TokenAuth{Token: token}, nil
	case user != "" || password != "":
		return &githttp.BasicAuth{Username: user, Password: password}, nil
	case a.User != "" || a.Password != "":
		return &githttp.BasicAuth{Username: a.User, Password: a.Password}, nil
	}
	return nil, nil
}

// ErrNoGit is returned for a response that is not from a git server. The error contains no part of the response,
// because a URL may lead to any service.
var ErrNoGit = errors.New("the answer is not one of a git server (smart HTTP)")

// limitedTransport limits the size of each response body, and drops the bodies of responses that no git client reads.
type limitedTransport struct {
	http.RoundTripper
	bytes int64
}

// isRedirect reports whether a client follows an answer with this status code.
func isRedirect(code int) bool {
	switch code {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}

// statusError returns the error for an answer that is not a success.
func statusError(scheme string, code int) error {
	switch code {
	case http.StatusUnauthorized:
		return transport.ErrAuthenticationRequired
	case http.StatusForbidden:
		return transport.ErrAuthorizationFailed
	case http.StatusNotFound:
		return transport.ErrRepositoryNotFound
	}
	if scheme == "http" && code == http.StatusBadRequest {
		return errors.New("the server refuses the request: if it uses TLS, write https:// in the URL (400 Bad Request)")
	}
	return fmt.Errorf("the server answers with status %d %s", code, http.StatusText(code))
}

// errRedirect is the error for a redirect that the client does not follow.
var errRedirect = errors.New("the server redirects to an address that a git client does not follow: write the " +
	"repository's final address into the URL. If this is a login page, check the path and the credentials")

// RoundTrip sends the request and limits the body of the response. If the response is not a success, RoundTrip drops
// the body and the status text, because errors with these texts would appear in a GitSource's status. A success must
// have the content type of git.
func (l *limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
			return nil, &BusyError{code: res.StatusCode, after: RetryAfter(res.Header.Get("Retry-After"), time.Now())}
		}
		if isRedirect(res.StatusCode) {
			res.Body, res.ContentLength = http.NoBody, 0
			return res, nil
		}
		return nil, statusError(r.URL.Scheme, res.StatusCode)
	}
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/x-git-upload-pack-") {
		_ = res.Body.Close()
		return nil, ErrNoGit
	}
	res.Body = &limitedReader{res.Body, l.bytes}
	return res, nil
}
