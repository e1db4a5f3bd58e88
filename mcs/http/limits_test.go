package http

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

func TestEachSourceHasItsOwnBudget(t *testing.T) {
	now := noon
	o, known, _ := closed(t)
	o.Now = func() time.Time { return now }
	o.Limits = Limits{Requests: Rate{PerSecond: 1, Burst: 4}, Failures: Rate{
		PerSecond: 0.1,
		Burst:     1,
	}}
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
		{"the third and fourth failure", "192.0.2.1:3", 0, false, 503},
		{"also in the form of IPv6", "[::ffff:192.0.2.1]:4", 0, false, 503},
		{"the fifth is one too many for any request", "192.0.2.1:4", 0, false, 503},
		{"a valid token still has a limit of its own", "192.0.2.1:5", 0, true, 200},
		{"and so have its next requests", "[::ffff:192.0.2.1]:6", 0, true, 200},
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
		if retry := w.Header().Get("Retry-After"); (retry != "") != (c.want == 503) {
			t.Errorf("%s: Retry-After is %q", c.because, retry)
		}
	}
}
