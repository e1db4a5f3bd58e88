package http

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var limitNoon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestARateOfNothingIsNoLimit(t *testing.T) {
	l := NewLimiter(Limits{Requests: Rate{Burst: 1}, Failures: Rate{PerSecond: 1}})
	from := netip.MustParseAddr("192.0.2.1")
	for range 3 {
		if !l.Request(from, limitNoon) {
			t.Error("a request has to wait although there is no rate")
		}
	}
	if !l.Failure(from, limitNoon) || l.Failure(from, limitNoon) {
		t.Error("a rate without a burst lets not exactly one through at once")
	}
}

func TestWhatIsRememberedOfSourcesIsBounded(t *testing.T) {
	l := NewLimiter(Limits{Requests: Rate{PerSecond: 1, Burst: 1}, Sources: 10})
	ask := func(i int) bool { return l.Request(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), limitNoon) }
	for i := range 1000 {
		if !ask(i) || l.sources.Len() > 10 {
			t.Fatalf("source %d, with %d remembered", i, l.sources.Len())
		}
	}
	var got []bool
	for i := 996; i < 1000; i++ {
		got = append(got, ask(i))
	}
	if diff := cmp.Diff([]bool{false, false, false, false}, got); diff != "" {
		t.Errorf("those that asked last have more, -want +got:\n%s", diff)
	}
}

func TestTheDefaultsLetARackBootAndSlowAGuesserDown(t *testing.T) {
	l := NewLimiter(DefaultLimits())
	rack := netip.MustParseAddr("192.0.2.1")
	for i := range 500 {
		if !l.Request(rack, limitNoon) {
			t.Fatalf("machine %d of a rack has to wait", i)
		}
	}
	guesses := 0
	for i := range 3600 {
		if l.Failure(rack, limitNoon.Add(time.Duration(i)*time.Second/10)) {
			guesses++
		}
	}
	if guesses > 380 {
		t.Errorf("%d guesses in six minutes", guesses)
	}
	if l.limits.Sources != 16384 {
		t.Error(fmt.Sprint("remembers ", l.limits.Sources))
	}
}
