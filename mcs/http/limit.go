package http

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Rate limits how often an event may happen.
type Rate struct {
	// over a longer time; 0: no limit
	PerSecond float64
	// at once, at least 1
	Burst int
}

func (r Rate) limits() bool { return r.PerSecond > 0 }

// Limiter returns a limiter of one source for the rate.
func (r Rate) Limiter() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(r.PerSecond), max(r.Burst, 1))
}

// Limits apply to each source: an IPv4 address, or an IPv6 network of 64 bits, in which one machine can choose any
// address.
type Limits struct {
	// of all kinds
	Requests Rate
	// unauthorized requests
	Failures Rate
	// tracked at a time, the most recent ones; 0 is the value in DefaultLimits
	Sources int
}

// DefaultLimits lets a rack behind one address boot at once, and a boot loop continue, but a client that guesses tokens
// is slow. All tracked sources need about 4 MiB of memory.
func DefaultLimits() Limits {
	return Limits{
		Requests: Rate{PerSecond: 50, Burst: 500},
		Failures: Rate{PerSecond: 1, Burst: 20},
		Sources:  16384,
	}
}

// Limiter counts requests by source in bounded memory. Of too many sources, it drops the one that was idle the longest.
type Limiter struct {
	limits  Limits
	sources *lru.Cache[netip.Prefix, *budget]
}

// budget: what a source may still cause
type budget struct{ requests, failures *rate.Limiter }

// NewLimiter returns a limiter that has counted nothing yet.
func NewLimiter(l Limits) *Limiter {
	if l.Sources <= 0 {
		l.Sources = DefaultLimits().Sources
	}
	sources, err := lru.New[netip.Prefix, *budget](l.Sources)
	if err != nil {
		panic(err) // The only possible error is a size that is not positive, and Sources is always positive.
	}
	return &Limiter{l, sources}
}

// Request subtracts one request from a source's budget, and reports whether the budget had a request left.
func (l *Limiter) Request(from netip.Addr, now time.Time) bool {
	return !l.limits.Requests.limits() || l.of(from).requests.AllowN(now, 1)
}

// Failure subtracts one unauthorized request from a source's budget, and reports whether the budget had one left.
func (l *Limiter) Failure(from netip.Addr, now time.Time) bool {
	return !l.limits.Failures.limits() || l.of(from).failures.AllowN(now, 1)
}

func (l *Limiter) of(from netip.Addr) *budget {
	key := SourceAddress(from)
	if b, ok := l.sources.Get(key); ok {
		return b
	}
	fresh := &budget{l.limits.Requests.Limiter(), l.limits.Failures.Limiter()}
	if b, ok, _ := l.sources.PeekOrAdd(key, fresh); ok {
		return b // A concurrent request of the source has added the budget.
	}
	return fresh
}

// Throttle allows one event per second and counts the other events.
type Throttle struct {
	mu   sync.Mutex
	next time.Time
	kept int
}

// Allow returns the number of events since the last allowed one, including this one, or 0 if it is not allowed.
func (t *Throttle) Allow(now time.Time) int {
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

// Streams limits how many long answers run at a time. A source may have as many as are left for all others, so that
// slow readers of a few sources never use all. Its methods may be called concurrently.
type Streams struct {
	// of answers
	Total int

	mu      sync.Mutex
	running int
	sources map[netip.Prefix]int
}

// Begin counts an answer to a client, and reports whether it may run. The caller calls end after an answer that ran.
func (s *Streams) Begin(from netip.Addr) (end func(), ok bool) {
	source := SourceAddress(from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources[source] >= s.Total-s.running {
		return nil, false
	}
	if s.sources == nil {
		s.sources = map[netip.Prefix]int{}
	}
	s.sources[source]++
	s.running++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
		if s.sources[source]--; s.sources[source] == 0 {
			delete(s.sources, source)
		}
	}, true
}

// SourceAddress returns the source of an address: itself for IPv4, its network of 64 bits for IPv6, and zero for an
// invalid one.
func SourceAddress(a netip.Addr) netip.Prefix {
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

// ClientAddress parses the remote address of a connection, without a zone, and an IPv4-mapped one as IPv4; zero if it
// is invalid.
func ClientAddress(addrPort string) netip.Addr {
	ap, err := netip.ParseAddrPort(addrPort)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// AddressOf returns the address of one end of a connection, a net.Addr, as ClientAddress does; zero for an end that has
// no IP address.
func AddressOf(end any) netip.Addr {
	if ip, ok := end.(interface{ AddrPort() netip.AddrPort }); ok {
		return ip.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// IsAllowedAddress reports whether an address is in one of the networks. Without any, each address is allowed.
func IsAllowedAddress(networks []netip.Prefix, from netip.Addr) bool {
	return len(networks) == 0 || slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(from) })
}

// IsLocalAddress reports whether a connection comes from this host: both of its ends have one address. local is a
// net.Addr.
func IsLocalAddress(from netip.Addr, local any) bool {
	return from.IsValid() && from == AddressOf(local)
}
