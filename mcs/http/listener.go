package http

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/mcs/http/address"
)

// Why a connection is closed, or its request is refused, for metrics and the log.
const (
	closedForeign    = "Foreign"
	closedTooMany    = "TooMany"
	closedSilent     = "Silent"
	closedShare      = "Share"
	closedOverloaded = "Overloaded"
)

// connectionsPerRequest is how many connections a source may open for each request that it may send. So most clients
// over the limit still get a 503. A load balancer that hides addresses can also probe while thousands of machines boot.
const connectionsPerRequest = 4

// errClosed says that a connection was closed to make room for another one.
var errClosed = errors.New("the connection was closed to make room for another one")

// listener limits connections before TLS. It closes connections from addresses that are not allowed, and those of a
// source that opens too many in a second. If there are too many connections, it closes silent ones.
type listener struct {
	net.Listener
	allowFrom []netip.Prefix
	limits    *limiter
	log       *slog.Logger
	metrics   *Metrics
	throttles map[string]*throttle // by reason

	mu     sync.Mutex
	room   sync.Cond // a connection was removed, or the listener is closed
	table  *connTable
	closed bool
}

// conn is a connection that a listener has accepted. The fields but Conn and listener belong to the listener's table.
type conn struct {
	net.Conn
	listener *listener

	source  *connSource // nil after its removal
	arrival uint64
	silent  *list.Element // nil while a request runs
}

func newListener(l net.Listener, b Bounds, s Server) *listener {
	s.Limits.Requests.PerSecond *= connectionsPerRequest
	s.Limits.Requests.Burst *= connectionsPerRequest
	bounded := &listener{Listener: l, allowFrom: s.AllowFrom, limits: newLimiter(s.Limits), log: s.Log, metrics: s.Metrics, table: newConnTable(b)}
	bounded.throttles = map[string]*throttle{closedForeign: {}, closedTooMany: {}, closedSilent: {}, closedShare: {}, closedOverloaded: {}}
	bounded.room.L = &bounded.mu
	return bounded
}

// Accept returns the next connection that is allowed and has room.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := address.Of(raw.RemoteAddr())
		switch {
		case !address.IsAllowed(l.allowFrom, from) && !address.IsLocal(from, raw.LocalAddr()):
			l.report(closedForeign, address.Source(from))
		case !l.limits.request(from, time.Now()):
			l.report(closedTooMany, address.Source(from))
		default:
			if c := l.admit(raw, address.Source(from)); c != nil {
				return c, nil
			}
		}
		_ = raw.Close()
	}
}

// admit adds a connection to the table and closes the one that the table removed for it. It waits while each connection
// has a running request. It returns nil if the source has used up its share, and after the listener was closed.
func (l *listener) admit(raw net.Conn, from netip.Prefix) *conn {
	c := &conn{Conn: raw, listener: l}
	l.mu.Lock()
	removed, result := l.table.add(c, from)
	for result == allActive && !l.closed {
		l.room.Wait()
		removed, result = l.table.add(c, from)
	}
	var loser netip.Prefix
	if removed != nil {
		loser = address.Source(address.Of(removed.RemoteAddr()))
	}
	l.mu.Unlock()
	switch {
	case removed != nil:
		_ = removed.Conn.Close()
		l.report(closedSilent, loser)
	case result == overShare:
		l.report(closedShare, from)
	}
	if result != admitted {
		return nil
	}
	return c
}

// Close closes the listener. Connections that it has accepted stay open.
func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// report counts a connection that was closed or refused, and logs at most one per second.
func (l *listener) report(reason string, source netip.Prefix) {
	l.metrics.connectionClosed(reason)
	if n := l.throttles[reason].allow(time.Now()); n > 0 {
		l.log.Warn("closed connections to protect the server", "reason", reason, "source", source, "closed", n)
	}
}

// Close closes the connection and makes room for another one.
func (c *conn) Close() error {
	err := c.Conn.Close()
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.table.remove(c) {
		l.room.Signal()
	}
	return err
}

// connKey is the key of a request's *conn in its context.
type connKey struct{}

// connContext adds a connection to the context of its requests.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// handler passes on the requests that may start; their connection is then active. It refuses a request with a body at once,
// because no handler reads one.
func (l *listener) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // net/http would read it, up to Bounds.Read
			writeError(w, errRequestBody)
			return
		}
		l.mu.Lock()
		err := l.table.begin(c)
		var from netip.Prefix
		if err == errOverloaded {
			from = c.source.prefix
		}
		l.mu.Unlock()
		switch err {
		case nil:
			next.ServeHTTP(w, r)
		case errOverloaded:
			l.report(closedOverloaded, from)
			writeError(w, err)
		default:
			panic(http.ErrAbortHandler) // the client does not read the response: create no token, count no use
		}
	})
}
