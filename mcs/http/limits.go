package http

import (
	"net"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Rate is how often something may happen.
type Rate struct {
	// PerSecond is how often in a second, in the long run; 0 sets no limit.
	PerSecond float64
	// Burst is how often at once, at least 1.
	Burst int
}

func (r Rate) limits() bool { return r.PerSecond > 0 }

func (r Rate) limiter() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(r.PerSecond), max(r.Burst, 1))
}

// Limits are what one source may do. A source is an IPv4 address, or an IPv6 network of 64 bits, as that is what one machine
// can choose its address from.
type Limits struct {
	// Requests is how often it may ask at all.
	Requests Rate
	// Failures is how often it may ask with nothing that is good.
	Failures Rate
	// Sources is how many of them are remembered, those that asked last; 0 is as DefaultLimits.
	Sources int
}

// DefaultLimits let a rack behind one address boot at once, and a boot loop go on; who guesses is slowed down. What is
// remembered of all sources takes about 4 MiB.
func DefaultLimits() Limits {
	return Limits{
		Requests: Rate{PerSecond: 50, Burst: 500},
		Failures: Rate{PerSecond: 1, Burst: 20},
		Sources:  16384,
	}
}

// limiter counts by source, in bounded memory: it forgets who has not asked for longest.
type limiter struct {
	limits  Limits
	sources *lru.Cache[netip.Prefix, *budget]
}

// budget is what a source has left.
type budget struct{ requests, failures *rate.Limiter }

func newLimiter(l Limits) *limiter {
	if l.Sources <= 0 {
		l.Sources = DefaultLimits().Sources
	}
	sources, err := lru.New[netip.Prefix, *budget](l.Sources)
	if err != nil {
		panic(err) // the only error is of a size that is not positive
	}
	return &limiter{l, sources}
}

// request takes one request of a source's budget, and tells whether there was one left.
func (l *limiter) request(from netip.Addr, now time.Time) bool {
	return !l.limits.Requests.limits() || l.of(from).requests.AllowN(now, 1)
}

// failure takes one failed admission of a source's budget, and tells whether there was one left.
func (l *limiter) failure(from netip.Addr, now time.Time) bool {
	return !l.limits.Failures.limits() || l.of(from).failures.AllowN(now, 1)
}

func (l *limiter) of(from netip.Addr) *budget {
	key := sourceOf(from)
	if b, ok := l.sources.Get(key); ok {
		return b
	}
	fresh := &budget{l.limits.Requests.limiter(), l.limits.Failures.limiter()}
	if b, ok, _ := l.sources.PeekOrAdd(key, fresh); ok {
		return b // another request of the source was faster
	}
	return fresh
}

// sourceOf is what an address is counted under; the zero value for one that is none.
func sourceOf(a netip.Addr) netip.Prefix {
	const network = 64
	bits := a.BitLen()
	if a.Is6() {
		bits = network
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// remote is the address of a connection's other end, without zone and as IPv4 where it is one.
func remote(addrPort string) netip.Addr {
	ap, err := netip.ParseAddrPort(addrPort)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// remoteOf is remote of a connection.
func remoteOf(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// throttle lets one of many through per second, with how many it stands for.
type throttle struct {
	mu   sync.Mutex
	next time.Time
	kept int
}

// pass tells how many times it was called since the last one that passed, this one included; 0 where this one does not.
func (t *throttle) pass(now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept++
	if now.Before(t.next) {
		return 0
	}
	n := t.kept
	t.kept, t.next = 0, now.Add(time.Second)
	return n
}
