package http

import (
	"net/netip"
	"time"
)

// Bounds limit how many resources one slow or hostile client can use; 0 is the value in DefaultBounds.
type Bounds struct {
	// Header is for the TLS handshake, and also for the headers of a request.
	Header time.Duration
	// Read is for a whole request.
	Read time.Duration
	// Send is for the client to read the response.
	Send time.Duration
	// Stop is for running requests when the server stops.
	Stop time.Duration
	// HeaderBytes is for all headers of a request. Longer ones get the status 431.
	HeaderBytes int
	// Connections in all. At the limit, a new one closes a silent connection, the oldest one of the source that has
	// most of them, or waits.
	Connections int
	// PerSource is for the connections of one source whose requests no token or certificate has authorized. At the
	// limit, a new one closes the oldest silent connection of its source, or waits.
	PerSource int
	// Silent is how long a connection without a complete request keeps its place if others of its source need it, and
	// have valid tokens.
	Silent time.Duration
	// Wait is how long a connection waits for its place, before TLS. Then it is closed.
	Wait time.Duration
}

// DefaultBounds returns the default bounds.
func DefaultBounds() Bounds {
	return Bounds{
		// Enough for three lost packets on a bad line, and a limit for slow-loris attacks.
		Header: 10 * time.Second,
		Read:   15 * time.Second, // A request has no body, so it ends soon after its headers.
		// Enough for a config of some MiB over a slow management network.
		Send:        5 * time.Minute,
		Stop:        time.Minute, // The time is long because Ignition does not retry after an incomplete body.
		HeaderBytes: 16 << 10,    // Ignition sends headers of 200 bytes; a token has 70 bytes.
		Connections: 4096,        // A connection with TLS needs about 60 KiB, so all connections need at most 256 MiB.
		// An eighth, so that a rack behind one address can boot at once.
		PerSource: 512,
		// Enough for a handshake with a server that is busy with the others of the source.
		Silent: 2 * time.Second,
		// Ignition gives up a handshake after 10 s. The server must not begin one that nobody waits for.
		Wait: 8 * time.Second,
	}
}

// OrDefault replaces fields that are 0 by their defaults.
func (b Bounds) OrDefault() Bounds {
	d := DefaultBounds()
	for _, t := range []struct{ set, to *time.Duration }{
		{&b.Header, &d.Header},
		{&b.Read, &d.Read},
		{&b.Send, &d.Send},
		{&b.Stop, &d.Stop},
		{&b.Silent, &d.Silent},
		{&b.Wait, &d.Wait},
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

// connTable divides a limited number of connections among sources. One is silent until the server has read a complete
// request from it, and then active until it is removed. Only silent ones are removed to make room. An active one whose
// token or certificate is valid counts for that, and no longer for its source. There is no I/O. Each method takes
// O(log n) time, and only one may be called at a time.
type connTable struct {
	total, perSource int
	keep             time.Duration // keep is Bounds.Silent.

	count, active int
	sources       map[netip.Prefix]*connSource
	held          map[holder]int // held has how many count for a token or certificate, and for one at a source.
	silent        line[netip.Prefix, *conn]
}

type connSource struct {
	prefix        netip.Prefix
	count, active int
	proven        time.Time // proven is when the last request with a valid token or certificate has come.
}

func newConnTable(b Bounds) *connTable {
	return &connTable{
		total: b.Connections, perSource: b.PerSource, keep: b.Silent,
		sources: map[netip.Prefix]*connSource{}, held: map[holder]int{},
	}
}

// isFull reports whether no source can add a connection.
func (t *connTable) isFull() bool { return t.count >= t.total && t.silent.count() == 0 }

// storming is how long after a request with a valid token the other connections of its source may be those of a storm.
const storming = 500 * time.Millisecond

// add adds a connection if there is room, and returns the one that was removed to make it, if any: an older one that is
// silent. If its source has valid tokens now, one of the same source has its place for a time: otherwise thousands of
// machines behind one address would close each other's connections, and none would complete a handshake.
func (t *connTable) add(c *conn, from netip.Prefix, now time.Time) (removed *conn, ok bool) {
	s := t.sources[from]
	ofSource := s != nil && s.count >= t.perSource
	if ofSource || t.count >= t.total {
		oldest := t.silent.oldestOfLongest()
		if ofSource {
			oldest = t.silent.oldestOf(from)
		}
		if oldest == nil {
			return nil, false
		}
		removed = oldest.value
		if removed.source == s && (c.came.Before(removed.came) || now.Sub(s.proven) < storming &&
			now.Sub(removed.since) < t.keep) {
			return nil, false
		}
		t.remove(removed)
	}
	if s = t.sources[from]; s == nil {
		s = &connSource{prefix: from}
		t.sources[from] = s
	}
	c.source, c.since = s, now
	c.silent = t.silent.push(from, c)
	s.count++
	t.count++
	return removed, true
}

// begin makes a connection active. The error is errClosed for a removed one, and errOverloaded if its source already
// has too many running requests: as many as connections are left for all other sources, so that a few sources never use
// all.
func (t *connTable) begin(c *conn) error {
	s := c.source
	switch {
	case s == nil:
		return errClosed
	case s.active >= t.total-t.active:
		return errOverloaded
	case c.silent != nil:
		t.silent.remove(c.silent)
		c.silent = nil
		s.active++
		t.active++
	}
	return nil
}

// proofShare is how many times as many connections a token may have as are left for all others: three quarters if it is
// the only one, so that a whole fleet boots with it. One source gets no more than half with it: whoever stole the token
// leaves the others some.
const proofShare = 3

// assign lets an active connection count for its valid token or certificate instead of its source, and reports whether
// that has room for it. So many active ones, itself included, wait for that. They take nothing from it: otherwise those
// of one token that wait could be all there are, and none would get its turn.
func (t *connTable) assign(c *conn, of holder, waiting int, now time.Time) bool {
	s := c.source
	if s == nil || c.holder.proof != "" { // it was closed
		return true
	}
	s.proven = now
	left := t.total - t.active + waiting
	if t.held[holder{proof: of.proof}] >= proofShare*left || t.held[of] >= left {
		return false
	}
	s.active--
	t.release(s)
	c.holder = of
	t.hold(of, 1)
	return true
}

// hold counts a connection for its token or certificate.
func (t *connTable) hold(of holder, n int) {
	for _, h := range []holder{{proof: of.proof}, of} {
		if t.held[h] += n; t.held[h] == 0 {
			delete(t.held, h)
		}
	}
}

// release lets a connection no longer count for its source.
func (t *connTable) release(s *connSource) {
	if s.count--; s.count == 0 {
		delete(t.sources, s.prefix)
	}
}

// remove reports whether the connection was in the table.
func (t *connTable) remove(c *conn) bool {
	s := c.source
	if s == nil {
		return false
	}
	t.count--
	switch {
	case c.holder.proof != "":
		t.active--
		t.hold(c.holder, -1)
	case c.silent != nil:
		t.silent.remove(c.silent)
		c.silent = nil
		t.release(s)
	default:
		s.active--
		t.active--
		t.release(s)
	}
	c.source = nil
	return true
}
