package http

import (
	"container/list"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Why a connection is closed, or its request refused, for metrics and the log.
const (
	closedForeign    = "Foreign"
	closedTooMany    = "TooMany"
	closedSilent     = "Silent"
	closedShare      = "Share"
	closedOverloaded = "Overloaded"
)

// connectionsPerRequest is for each request that the source may send. With more than 1, most clients over the limit
// still get a 503, and a load balancer that hides addresses can probe the server while thousands of machines boot.
const connectionsPerRequest = 4

// errClosed: the connection was closed to make room for another one.
var errClosed = errors.New("the connection was closed to make room for another one")

// listener limits connections before TLS. It closes those from addresses that are not allowed, and of a source that
// opens too many per second, and if there are too many, silent ones.
type listener struct {
	net.Listener
	allowFrom []netip.Prefix
	limits    *Limiter
	log       *slog.Logger
	metrics   *Metrics
	throttles map[string]*Throttle // throttles limits the log lines, by reason.

	mu     sync.Mutex
	room   sync.Cond // room signals that a connection was removed, or that the listener is closed.
	table  *connTable
	closed bool
}

// conn belongs to the listener's table, except Conn and listener.
type conn struct {
	net.Conn
	listener *listener

	source  *connSource // source is nil after the removal of the connection.
	arrival uint64
	silent  *list.Element // silent is nil while a request runs.
}

// Accept returns the next connection that is allowed and for which the table has room.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := AddressOf(raw.RemoteAddr())
		switch {
		case !IsAllowedAddress(l.allowFrom, from) && !IsLocalAddress(from, raw.LocalAddr()):
			l.report(closedForeign, SourceAddress(from))
		case !l.limits.Request(from, time.Now()):
			l.report(closedTooMany, SourceAddress(from))
		default:
			if c := l.admit(raw, SourceAddress(from)); c != nil {
				return c, nil
			}
		}
		_ = raw.Close()
	}
}

// admit adds a connection to the table, and closes the one that was removed to make room. It waits while each has a
// running request. It returns nil if the source has used up its share, or if the listener was closed.
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
		loser = SourceAddress(AddressOf(removed.RemoteAddr()))
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

// Close closes the listener. Connections that the listener has accepted stay open.
func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// report counts a closed or refused connection, and logs at most one per second.
func (l *listener) report(reason string, source netip.Prefix) {
	l.metrics.connectionClosed(reason)
	if n := l.throttles[reason].Allow(time.Now()); n > 0 {
		l.log.Warn("closed connections to protect the server", "reason", reason, "source", source, "closed", n)
	}
}

// Close closes the connection, and makes room in the table for another connection.
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

// connKey is for a request's *conn in its context.
type connKey struct{}

// handler marks connections of requests that may start as active. A request with a body is refused at once, because no
// handler reads one.
func (l *listener) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		if r.ContentLength != 0 {
			// Otherwise net/http would read the body, for up to Bounds.Read.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
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
			// No client reads the response, so the server must create no bootstrap token and count no use.
			panic(http.ErrAbortHandler)
		}
	})
}
