package http

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// Bounds keep one client, slow or hostile, from holding more than its share of the server. A field that is 0 is as in
// DefaultBounds.
type Bounds struct {
	// Header is how long a client may take for its TLS handshake, and again for the headers of a request.
	Header time.Duration
	// Read is how long it may take for a whole request.
	Read time.Duration
	// Send is how long it may take to read an answer.
	Send time.Duration
	// Idle is how long it may keep a connection without a request.
	Idle time.Duration
	// Stop is how long requests under way may go on when the server stops.
	Stop time.Duration
	// HeaderBytes is how long the headers of a request may be in all; a longer one is answered 431.
	HeaderBytes int
	// Connections is how many there may be at once. More wait until one ends.
	Connections int
	// PerSource is how many of these one source may hold; see Limits. More are closed at once.
	PerSource int
}

// DefaultBounds are what a server is run with.
func DefaultBounds() Bounds {
	return Bounds{
		Header:      10 * time.Second, // three times lost packets on the worst line; a slow-loris holds a place no longer
		Read:        15 * time.Second, // a request has no body, so that it is over soon after its headers
		Send:        5 * time.Minute,  // a config of some MiB over the slowest management network
		Idle:        30 * time.Second, // a machine asks once; only tools ask again
		Stop:        time.Minute,      // Ignition does not ask again for a body that broke off: let them end
		HeaderBytes: 16 << 10,         // Ignition sends 200 bytes; a token is 70
		Connections: 4096,             // about 60 KiB each with TLS: 256 MiB at worst
		PerSource:   512,              // an eighth: seven others that do the same leave room for an honest one
	}
}

// orDefault fills in what is 0.
func (b Bounds) orDefault() Bounds {
	d := DefaultBounds()
	for _, t := range []struct{ set, to *time.Duration }{
		{&b.Header, &d.Header}, {&b.Read, &d.Read}, {&b.Send, &d.Send}, {&b.Idle, &d.Idle}, {&b.Stop, &d.Stop},
	} {
		if *t.set == 0 {
			*t.set = *t.to
		}
	}
	for _, n := range []struct{ set, to *int }{
		{&b.HeaderBytes, &d.HeaderBytes}, {&b.Connections, &d.Connections}, {&b.PerSource, &d.PerSource},
	} {
		if *n.set == 0 {
			*n.set = *n.to
		}
	}
	return b
}

// bounded accepts connections within bounds.
func bounded(l net.Listener, b Bounds, log *slog.Logger) net.Listener {
	return netutil.LimitListener(&fairListener{Listener: l, share: b.PerSource, log: log, held: map[netip.Prefix]int{}}, b.Connections)
}

// fairListener closes the connections of a source that has its share already.
type fairListener struct {
	net.Listener
	share  int
	log    *slog.Logger
	closed throttle

	mu   sync.Mutex
	held map[netip.Prefix]int
}

// Accept returns the next connection of a source that has not yet its share.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := sourceOf(remoteOf(c))
		if l.take(source) {
			return &fairConn{Conn: c, release: sync.OnceFunc(func() { l.give(source) })}, nil
		}
		_ = c.Close()
		if n := l.closed.pass(time.Now()); n > 0 {
			l.log.Warn("closing connections of sources that hold their share already", "source", source, "share", l.share, "closed", n)
		}
	}
}

func (l *fairListener) take(source netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[source] >= l.share {
		return false
	}
	l.held[source]++
	return true
}

func (l *fairListener) give(source netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[source]--; l.held[source] == 0 {
		delete(l.held, source)
	}
}

// fairConn gives its place back when it is closed.
type fairConn struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *fairConn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}
