package http

import (
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/bunsen-os/bunsen/mcs/http/address"
)

// Rate limits how often an event may happen.
type Rate struct {
	// PerSecond is how many events per second may happen over a longer time; 0 sets no limit.
	PerSecond float64
	// Burst is how many events may happen at once, at least 1.
	Burst int
}

func (r Rate) limits() bool { return r.PerSecond > 0 }

func (r Rate) limiter() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(r.PerSecond), max(r.Burst, 1))
}

// Limits apply to each source. A source is an IPv4 address, or an IPv6 network of 64 bits, in which one machine can choose any
// address.
type Limits struct {
	// Requests limits all requests.
	Requests Rate
	// Failures limits unauthorized requests.
	Failures Rate
	// Sources is how many of the most recent sources the server tracks; 0 stands for the value in DefaultLimits.
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

// limiter counts requests by source in bounded memory. If there are too many sources, limiter drops the source that was
// idle the longest.
type limiter struct {
	limits  Limits
	sources *lru.Cache[netip.Prefix, *budget]
}

// budget is how many requests and failures a source may still cause.
type budget struct{ requests, failures *rate.Limiter }

func newLimiter(l Limits) *limiter {
	if l.Sources <= 0 {
		l.Sources = DefaultLimits().Sources
	}
	sources, err := lru.New[netip.Prefix, *budget](l.Sources)
	if err != nil {
		panic(err) // The only possible error is a size that is not positive, and Sources is always positive.
	}
	return &limiter{l, sources}
}

// request subtracts one request from a source's budget, and reports whether the budget had a request left.
func (l *limiter) request(from netip.Addr, now time.Time) bool {
	return !l.limits.Requests.limits() || l.of(from).requests.AllowN(now, 1)
}

// failure subtracts one unauthorized request from a source's budget, and reports whether the budget had one left.
func (l *limiter) failure(from netip.Addr, now time.Time) bool {
	return !l.limits.Failures.limits() || l.of(from).failures.AllowN(now, 1)
}

func (l *limiter) of(from netip.Addr) *budget {
	key := address.Source(from)
	if b, ok := l.sources.Get(key); ok {
		return b
	}
	fresh := &budget{l.limits.Requests.limiter(), l.limits.Failures.limiter()}
	if b, ok, _ := l.sources.PeekOrAdd(key, fresh); ok {
		return b // A concurrent request of the source has added the budget.
	}
	return fresh
}

// throttle allows one event per second and counts the other events.
type throttle struct {
	mu   sync.Mutex
	next time.Time
	kept int
}

// allow returns 0 if the event is not allowed. Otherwise, allow returns the number of events since the last allowed
// event, including this one.
func (t *throttle) allow(now time.Time) int {
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
