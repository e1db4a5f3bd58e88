package http

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

func TestEachSourceHasItsOwnBudget(t *testing.T) {
	now := noon
	o, known, _ := closed(t)
	o.Now = func() time.Time { return now }
	o.Limits = Limits{Requests: Rate{PerSecond: 1, Burst: 4}, Failures: Rate{PerSecond: 0.1, Burst: 1}}
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
	h, _ := Routes(o)
	for _, c := range []struct {
		because, address string
		later            time.Duration
		good             bool
		want             int
	}{
		{"the first failure", "192.0.2.1:1", 0, false, 401},
		{"the second is one too many", "192.0.2.1:2", 0, false, 503},
		{"who fails does not lock its neighbour out", "192.0.2.1:3", 0, true, 200},
		{"another source", "192.0.2.2:1", 0, false, 401},
		{"the fourth request", "192.0.2.1:3", 0, true, 200},
		{"the fifth is one too many", "192.0.2.1:4", 0, true, 503},
		{"also in the form of IPv6", "[::ffff:192.0.2.1]:4", 0, true, 503},
		{"a second later there is one more", "192.0.2.1:5", time.Second, true, 200},
		{"but only one", "192.0.2.1:6", 0, true, 503},
		{"ten seconds later one may fail again", "192.0.2.1:7", 10 * time.Second, false, 401},
		{"a machine of IPv6", "[2001:db8::1]:1", 0, false, 401},
		{"it has more addresses", "[2001:db8::ffff]:1", 0, false, 503},
		{"and interfaces", "[2001:db8::2%eth1]:1", 0, false, 503},
		{"another network", "[2001:db8:0:1::1]:1", 0, false, 401},
	} {
		now = now.Add(c.later)
		r := httptest.NewRequest("GET", "/config/worker", nil)
		r.RemoteAddr = c.address
		if c.good {
			r.Header.Set("Authorization", bearer(good))
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s: %s is answered %d, want %d", c.because, c.address, w.Code, c.want)
		}
		if retry := w.Header().Get("Retry-After"); (retry == "5") != (c.want == 503) {
			t.Errorf("%s: Retry-After is %q", c.because, retry)
		}
	}
}

func TestARateOfNothingIsNoLimit(t *testing.T) {
	l := newLimiter(Limits{Requests: Rate{Burst: 1}, Failures: Rate{PerSecond: 1}})
	from := netip.MustParseAddr("192.0.2.1")
	for range 3 {
		if !l.request(from, noon) {
			t.Error("a request has to wait although there is no rate")
		}
	}
	if !l.failure(from, noon) || l.failure(from, noon) {
		t.Error("a rate without a burst lets not exactly one through at once")
	}
}

func TestWhatIsRememberedOfSourcesIsBounded(t *testing.T) {
	l := newLimiter(Limits{Requests: Rate{PerSecond: 1, Burst: 1}, Sources: 10})
	ask := func(i int) bool { return l.request(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), noon) }
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
	l := newLimiter(DefaultLimits())
	rack := netip.MustParseAddr("192.0.2.1")
	for i := range 500 {
		if !l.request(rack, noon) {
			t.Fatalf("machine %d of a rack has to wait", i)
		}
	}
	guesses := 0
	for i := range 3600 {
		if l.failure(rack, noon.Add(time.Duration(i)*time.Second/10)) {
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
