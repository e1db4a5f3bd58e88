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
	// PerSecond is how many events per second may happen over a longer time; 0 sets no limit.
	PerSecond float64
	// Burst is how many events may happen at once, at least 1.
	Burst int
}

func (r Rate) limits() bool { return r.PerSecond > 0 }

// Limiter returns a limiter of one source for the rate.
func (r Rate) Limiter() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(r.PerSecond), max(r.Burst, 1))
}

// Limits apply to each source. A source is an IPv4 address, or an IPv6 network of 64 bits, in which one machine can
// choose any address.
type Limits struct {
	// Requests limits all requests.
	Requests Rate
	// Failures limits unauthorized requests.
	Failures Rate
	// Sources is how many of the most recent sources the server tracks; 0 stands for the value in Default.
	Sources int
}

// DefaultLimits returns the default limits. With them, a rack behind one address can boot at once, a boot loop can
// continue, and a client that guesses tokens is slow. All tracked sources need about 4 MiB of memory.
func DefaultLimits() Limits {
	return Limits{
		Requests: Rate{PerSecond: 50, Burst: 500},
		Failures: Rate{PerSecond: 1, Burst: 20},
		Sources:  16384,
	}
}

// Limiter counts requests by source in bounded memory. If there are too many sources, Limiter drops the source that was
// idle the longest.
type Limiter struct {
	limits  Limits
	sources *lru.Cache[netip.Prefix, *budget]
}

// budget is how many requests and failures a source may still cause.
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

// Allow returns 0 if the event is not allowed. Otherwise, Allow returns the number of events since the last allowed
// event, including this one.
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

// Streams limits how many long answers run at a time. A source may have as many as are left for all other sources, so
// that slow readers of a few sources never use all of them. Its methods may be called concurrently.
type Streams struct {
	// Total is the largest number of answers.
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

// SourceAddress returns the source of an address: the address itself for IPv4, and its network of 64 bits for IPv6.
// Source returns the zero value for an invalid address.
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

// ClientAddress parses the remote address of a connection. Client removes the zone, and returns an IPv4-mapped address
// as IPv4. Client returns the zero value for an invalid address.
func ClientAddress(addrPort string) netip.Addr {
	ap, err := netip.ParseAddrPort(addrPort)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// AddressOf returns the address of one end of a connection, a net.Addr, in the form of Client. Of returns the zero
// value for an end that has no IP address.
func AddressOf(end any) netip.Addr {
	if ip, ok := end.(interface{ AddrPort() netip.AddrPort }); ok {
		return ip.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// IsAllowedAddress reports whether an address is in one of the networks. If there are no networks, each address is
// allowed.
func IsAllowedAddress(networks []netip.Prefix, from netip.Addr) bool {
	return len(networks) == 0 || slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(from) })
}

// IsLocalAddress reports whether a connection comes from this host: its remote address equals its local address, which
// is a net.Addr.
func IsLocalAddress(from netip.Addr, local any) bool {
	return from.IsValid() && from == AddressOf(local)
}
