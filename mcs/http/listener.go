package http

import (
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
	// shareWait is how long a request may wait for the share of its token, see headersWithin.
	shareWait = 4 * time.Second
	// keysPerLook is how many sources or tokens that wait are looked at for each free place, so that a look is short.
	keysPerLook = 64
	// lookAgain is how often those that wait are looked at while no place becomes free: limits end with time.
	lookAgain = 20 * time.Millisecond
	// localPlaces are for connections from this host alone: its kubelet probes the server while all other places are
	// taken.
	localPlaces = 16
)

// errClosed: the connection was closed to make room for another one.
var errClosed = errors.New("the connection was closed to make room for another one")

// listener limits connections before TLS. It closes those from addresses that are not allowed. The others wait for a
// place, and sources take turns; if there are too many, silent ones are closed. The newest one of a source comes first,
// as it has most time left for the handshake: otherwise a server that is too slow for a storm would work on handshakes
// that the machines give up. A load balancer that hides addresses can probe, too.
type listener struct {
	net.Listener
	allowFrom []netip.Prefix
	limits    *Limiter
	wait      time.Duration // wait is that of Bounds.
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
	// local are connections with one of localPlaces, of which locals are taken, that Accept has not returned yet.
	local   []*conn
	locals  int
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

	source      *connSource                  // source is nil if it is not in the table, or no longer.
	came, since time.Time                    // since is when it got its place.
	silent      *waiter[netip.Prefix, *conn] // silent is nil while a request runs.
	// holder is whom it counts for instead of its source: a valid token or certificate there; zero for none.
	holder holder
	// isSettled is true if it need not be counted for its address when it ends: it was, or its token or certificate is
	// valid.
	isSettled bool
	isLocal   bool // isLocal is true while it has one of localPlaces.
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
		isLocal := IsLocalAddress(from, raw.LocalAddr())
		if !isLocal && !IsAllowedAddress(l.allowFrom, from) {
			l.report(closedForeign, SourceAddress(from))
			_ = raw.Close()
			continue
		}
		if c, ok := raw.(interface{ SetReadBuffer(int) error }); ok {
			_ = c.SetReadBuffer(sentEarly) // An error means that the connection has ended.
		}
		l.mu.Lock()
		if isLocal && l.locals < localPlaces {
			l.locals++
			l.local = append(l.local, &conn{Conn: raw, listener: l, isLocal: true})
		} else {
			l.waiting.push(SourceAddress(from), arrival{raw, from, time.Now()})
		}
		if l.waiting.count() > waitingPerConnection*l.table.total {
			l.drop(closedShare, l.waiting.oldestOfLongest())
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
	w := l.waiting.oldestOfLongest()
	if w != nil {
		l.waiting.remove(w)
	}
	l.mu.Unlock()
	if w == nil {
		return false
	}
	l.report(closedShare, w.queue.key)
	_ = w.value.Close() // at once, as the next connection needs its file
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
		if len(l.local) > 0 {
			c := l.local[0]
			l.local = l.local[1:]
			return c, nil
		}
		now := time.Now()
		l.expire(now)
		if c, ok := l.admit(now); ok {
			return c, nil
		}
		if l.waiting.count() > 0 && !l.looking {
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
	for w := l.waiting.oldest(); w != nil && now.Sub(w.value.at) > l.wait; w = l.waiting.oldest() {
		l.drop(closedTooMany, w)
	}
}

// admit gives a place to the connection whose turn it is, and closes the one that was removed to make room.
func (l *listener) admit(now time.Time) (c *conn, ok bool) {
	if l.table.isFull() {
		return nil, false
	}
	_, ok = l.waiting.next(keysPerLook, func(source netip.Prefix, a arrival) bool {
		if !l.limits.MayConnect(a.from, now) {
			return false
		}
		c = &conn{Conn: a.Conn, listener: l, came: a.at}
		removed, ok := l.table.add(c, source, now)
		if removed != nil {
			l.close(closedSilent, removed.Conn)
		}
		return ok
	})
	return c, ok
}

// drop closes a connection that waits.
func (l *listener) drop(reason string, w *waiter[netip.Prefix, arrival]) {
	l.waiting.remove(w)
	l.close(reason, w.value.Conn)
}

// close closes a connection without a place. The caller holds mu, and a close can take its time.
func (l *listener) close(reason string, c net.Conn) {
	go func() {
		l.report(reason, SourceAddress(AddressOf(c.RemoteAddr())))
		_ = c.Close()
	}()
}

// assign lets a connection count for its valid token or certificate. It waits while that has no room.
func (l *listener) assign(ctx context.Context, c *conn, of holder) error {
	l.mu.Lock()
	c.isSettled = true
	if l.table.assign(c, of, l.shares.count()+1, time.Now()) {
		l.room.Broadcast() // Its source has room for another one.
		l.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	w := l.shares.push(of, &assignment{c, granted})
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
		l.shares.remove(w)
		return errOverloaded
	}
}

// share lets requests continue whose tokens have room. Their connections no longer count for their sources, which have
// room for others then.
func (l *listener) share() {
	now := time.Now()
	for {
		a, ok := l.shares.next(keysPerLook, func(of holder, a *assignment) bool {
			return l.table.assign(a.conn, of, l.shares.count(), now)
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
	for w := l.waiting.oldest(); w != nil; w = l.waiting.oldest() {
		l.waiting.remove(w)
		_ = w.value.Close()
	}
	for _, c := range l.local {
		_ = c.Conn.Close()
	}
	l.local = nil
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
	if !c.isSettled {
		c.isSettled = true
		l.limits.Connection(AddressOf(c.RemoteAddr()), time.Now())
	}
	if c.isLocal {
		c.isLocal = false
		l.locals--
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
		var err error
		if !c.isLocal {
			err = l.table.begin(c)
		}
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
