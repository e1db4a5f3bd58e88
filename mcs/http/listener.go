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
	"syscall"
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

const (
	// waitingPerConnection: so many times more may wait than be served. One that waits needs a file and about 4 KiB,
	// and what the client has sent, see sentEarly.
	waitingPerConnection = 2
	// sentEarly is how many bytes the kernel is asked to keep of what a client sends to a connection that waits. It
	// keeps twice as many. A whole request fits, or is read before its rest arrives.
	sentEarly = 8 << 10
	// shareWait is how long a request may wait for the share of its token. Ignition waits for headers for 10 s, and
	// up to prepareTimeout follows.
	shareWait = 4 * time.Second
	// sourcesPerLook is how many sources that wait are looked at for each free place, so that a look is short.
	sourcesPerLook = 64
	// lookAgain is how often those that wait are looked at while no place becomes free: limits end with time.
	lookAgain = 20 * time.Millisecond
)

// errClosed: the connection was closed to make room for another one.
var errClosed = errors.New("the connection was closed to make room for another one")

// listener limits connections before TLS. It closes those from addresses that are not allowed. The others wait for a
// place, and sources take turns; if there are too many, silent ones are closed.
type listener struct {
	net.Listener
	allowFrom []netip.Prefix
	limits    *Limiter
	silent    time.Duration // silent and wait are those of Bounds.
	wait      time.Duration
	log       *slog.Logger
	metrics   *Metrics
	throttles map[string]*Throttle // throttles limits the log lines, by reason.

	mu    sync.Mutex
	room  sync.Cond // room announces that a connection may have a place, an error, or that the listener is closed.
	table *connTable
	// waiting are connections without a place, by source, and shares requests without one in the share of their token
	// at their source.
	waiting line[netip.Prefix, arrival]
	shares  line[holder, *assignment]
	looking bool  // looking: a look at those that wait is due.
	failed  error // failed is an error of the inner listener that Accept has not returned yet.
	closed  bool
}

// arrival is a connection that waits for its place.
type arrival struct {
	net.Conn
	from netip.Addr
	at   time.Time
}

// assignment is an active connection that waits for the share of its token.
type assignment struct {
	conn    *conn
	granted chan struct{}
}

// conn belongs to the listener's table, except Conn and listener.
type conn struct {
	net.Conn
	listener *listener

	source  *connSource // source is nil after the removal of the connection.
	arrival uint64
	since   time.Time     // since is when it got its place.
	silent  *list.Element // silent is nil while a request runs.
	// proof is the valid token or certificate that it counts for, instead of its source.
	proof string
	// isProven is true as soon as a valid token or certificate is known. Then it does not count for its address.
	isProven bool
	// isCounted is true after it was counted for its address.
	isCounted bool
}

// receive lets the connections of the inner listener wait, until that fails for good.
func (l *listener) receive() {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			if (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && l.freeFile() {
				continue
			}
			if !l.fail(err) {
				return
			}
			continue
		}
		from := AddressOf(raw.RemoteAddr())
		if !IsAllowedAddress(l.allowFrom, from) && !IsLocalAddress(from, raw.LocalAddr()) {
			l.report(closedForeign, SourceAddress(from))
			_ = raw.Close()
			continue
		}
		if c, ok := raw.(interface{ SetReadBuffer(int) error }); ok {
			_ = c.SetReadBuffer(sentEarly) // An error means that the connection has ended.
		}
		source := SourceAddress(from)
		l.mu.Lock()
		l.waiting.push(source, arrival{raw, from, time.Now()})
		if l.waiting.count > waitingPerConnection*l.table.total {
			source, last := l.waiting.removeLast()
			l.drop(closedShare, last.Conn, source)
		}
		if l.closed {
			l.closeWaiting()
		}
		l.room.Broadcast()
		l.mu.Unlock()
	}
}

// freeFile closes the connection that is also closed if too many wait, and reports whether one has waited. Otherwise
// those that wait could keep all files of the process, and the server could accept none of others.
func (l *listener) freeFile() bool {
	l.mu.Lock()
	if l.waiting.count == 0 {
		l.mu.Unlock()
		return false
	}
	source, last := l.waiting.removeLast()
	l.mu.Unlock()
	l.report(closedShare, source)
	_ = last.Conn.Close() // at once, as the next connection needs its file
	return true
}

// fail hands an error to Accept, and reports whether the listener is still open.
func (l *listener) fail(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
	l.room.Broadcast()
	for l.failed != nil && !l.closed {
		l.room.Wait()
	}
	return !l.closed
}

// Accept returns the next connection that has a place in the table.
func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.closed:
			return nil, net.ErrClosed
		case l.failed != nil:
			err := l.failed
			l.failed = nil
			l.room.Broadcast()
			return nil, err
		}
		now := time.Now()
		l.expire(now)
		if c, ok := l.admit(now); ok {
			return c, nil
		}
		if l.waiting.count > 0 && !l.looking {
			l.looking = true
			time.AfterFunc(lookAgain, l.look)
		}
		l.room.Wait()
	}
}

func (l *listener) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looking = false
	l.room.Broadcast()
}

// expire closes connections that have waited too long, also behind newer ones of their source, or while all places have
// requests under way: each needs a file.
func (l *listener) expire(now time.Time) {
	l.waiting.removeGone(func(source netip.Prefix, a arrival) bool {
		isGone := now.Sub(a.at) > l.wait
		if isGone {
			l.drop(closedTooMany, a.Conn, source)
		}
		return isGone
	})
}

// admit gives a place to the connection whose turn it is, and closes the one that was removed to make room.
func (l *listener) admit(now time.Time) (c *conn, ok bool) {
	if l.table.isFull() {
		return nil, false
	}
	_, ok = l.waiting.next(sourcesPerLook, func(source netip.Prefix, a arrival) verdict {
		c = &conn{Conn: a.Conn, listener: l}
		if !l.limits.MayConnect(a.from, now) {
			return stays
		}
		removed, ok := l.table.add(c, source, now, now.Add(-l.silent))
		if !ok {
			return stays
		}
		if removed != nil {
			l.drop(closedSilent, removed.Conn, SourceAddress(AddressOf(removed.RemoteAddr())))
		}
		return leaves
	})
	return c, ok
}

// drop closes a connection without a place. The caller holds mu, and a close can take its time.
func (l *listener) drop(reason string, c net.Conn, source netip.Prefix) {
	go func() {
		l.report(reason, source)
		_ = c.Close()
	}()
}

// assign lets a connection count for its valid token or certificate. It waits while that has no room.
func (l *listener) assign(ctx context.Context, c *conn, proof string) error {
	l.mu.Lock()
	c.isProven = true
	granted := make(chan struct{})
	at := l.shares.push(holder{proof, SourceAddress(AddressOf(c.RemoteAddr()))}, &assignment{c, granted})
	l.share()
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, shareWait)
	defer cancel()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-granted: // at the same moment
		return nil
	default:
		l.shares.remove(at)
		return errOverloaded
	}
}

// share lets requests continue whose tokens have room. Their connections no longer count for their sources, which have
// room for others then.
func (l *listener) share() {
	for {
		a, ok := l.shares.next(l.shares.turns.Len(), func(of holder, a *assignment) verdict {
			if l.table.assign(a.conn, of.proof, l.shares.count-1) {
				return leaves
			}
			return stays
		})
		if !ok {
			l.room.Broadcast()
			return
		}
		close(a.granted)
	}
}

// Close closes the listener, and connections that have no place. Those that Accept has returned stay open.
func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.closeWaiting()
	l.room.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

func (l *listener) closeWaiting() {
	l.waiting.next(l.waiting.turns.Len(), func(_ netip.Prefix, a arrival) verdict {
		_ = a.Conn.Close()
		return gone
	})
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
	if !c.isProven && !c.isCounted {
		c.isCounted = true
		l.limits.Connection(AddressOf(c.RemoteAddr()), time.Now())
	}
	if l.table.remove(c) {
		l.share()
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
