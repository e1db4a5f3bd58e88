package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
)

// Dialer opens sessions with one repository. Dialer is safe for concurrent use.
type Dialer interface {
	// Dial opens a session. Dial requests version 2 of the protocol; the server may answer in version 0.
	Dial(ctx context.Context) (Session, error)
}

// Session is a session with git-upload-pack. Use it in one goroutine.
type Session interface {
	// Advertisement returns the first message of the server: its capabilities, in version 0 also its refs.
	Advertisement() io.Reader
	// Request sends a request and returns the response, which the caller reads to its end and closes. In version 0, a
	// session serves one request.
	Request(ctx context.Context, body []byte) (io.ReadCloser, error)
	// Explain adds to an error what the server wrote about it.
	Explain(err error) error
	// Close ends the session.
	Close() error
}

// ErrTooLarge ends a session in which the server sends too much.
var ErrTooLarge = errors.New("the server sends more than the limit")

// overhead is how many bytes a server may send in addition to a pack: refs, progress, framing.
const overhead = 16 << 20

// Connect opens a connection to an address, as net.Dialer does, for example through a proxy.
type Connect func(ctx context.Context, network, addr string) (net.Conn, error)

// HTTP sends requests over https and http. It presents the client certificate of the Secret to the recipients of the
// Secret's credentials only.
type HTTP interface {
	http.RoundTripper
	// CloseIdleConnections closes the connections without a request.
	CloseIdleConnections()
}

// Options are the settings of a dialer.
type Options struct {
	// PackBytes is the most bytes of one pack.
	PackBytes int64
	// Connect opens the connections for ssh. If Connect is nil, they are direct.
	Connect Connect
	// HTTP returns a transport with the certificates of the Secret. An error says which key of the Secret is wrong.
	HTTP func() (HTTP, error)
	// Servers remembers what servers can do, longer than the dialer exists; nil: nothing is remembered. Key identifies
	// the repository and the credentials in Servers.
	Servers *Servers
	Key     string
}

// New checks the address and the Secret, and returns a dialer. New opens no connection.
func New(a source.Address, secret map[string][]byte, o Options) (Dialer, error) {
	if a.Transport == source.SSH {
		return newSSH(a, secret, o)
	}
	return newHTTP(a, secret, o)
}

// Check returns an error if the Secret has unknown keys, or if its credentials must not be sent to the address. With
// hostsRequired, a Secret with credentials for https must list its hosts.
func Check(a source.Address, secret map[string][]byte, hostsRequired bool) error {
	return errors.Join(checkKeys(secret), access.CheckHosts(a, secret, hostsRequired))
}

// limitedReader returns ErrTooLarge at a limit.
type limitedReader struct {
	io.ReadCloser
	left int64
}

// Read reads up to the limit.
func (c *limitedReader) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.left -= int64(n)
	if c.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

// checkKeys returns an error that names every key of a Secret that no connection to a git server uses.
func checkKeys(secret map[string][]byte) error {
	return access.CheckKeys(secret, slices.Concat(
		[]string{"bearerToken", "ca.crt", access.HostsKey}, identityKeys(),
		[]string{"identity.pub", "known_hosts", "password", "tls.crt", "tls.key", "username"}))
}
