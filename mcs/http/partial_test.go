package http

import (
	"errors"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// A server that started with what it kept, because the API server is away, does not know what was made meanwhile:
// whoever asks for that shall ask again, for Ignition gives up after a 4xx. What cannot become good is told as ever.
func TestWhatMayComeToBeKnownIsWorthAnotherTry(t *testing.T) {
	known := &tokens{}
	kept := mcs.NewPools()
	if err := kept.Set("worker", rendered("rendered-worker-1", "a")); err != nil {
		t.Fatal(err)
	}
	kept.SetPartial()
	o := open(kept)
	o.Access.Open, o.Tokens = false, known
	h, _ := Routes(o)
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
	late := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "late"})
	revoked := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker", Revoked: true})
	made := join.Token{ID: "aaaaaaaaaa", Secret: strings.Repeat("A", 43)}
	again := join.Token{ID: good.ID, Secret: made.Secret} // reads as one that is not known, as ever
	asked := []struct {
		what, path, header string
		partly, wholly     int
	}{
		{"what was kept", "/config/worker", bearer(good), 200, 200},
		{"a pool that was made meanwhile", "/config/late", bearer(late), 503, 404},
		{"a token that was made meanwhile", "/config/worker", bearer(made), 503, 401},
		{"another secret", "/config/worker", bearer(again), 503, 401},
		{"a token that was revoked", "/config/worker", bearer(revoked), 403, 403},
		{"a token of another pool", "/config/late", bearer(good), 403, 403},
		{"no token", "/config/worker", "", 401, 401},
		{"readiness", "/readyz", "", 200, 200},
	}
	for _, c := range asked {
		r := ask(h, "GET", c.path, "Authorization", c.header)
		if r.StatusCode != c.partly || (r.Header.Get("Retry-After") != "") != (c.partly == 503) {
			t.Errorf("before all is known, %s: %d %s", c.what, r.StatusCode, text(t, r))
		}
	}
	kept.SetSynced()
	for _, c := range asked {
		if r := ask(h, "GET", c.path, "Authorization", c.header); r.StatusCode != c.wholly {
			t.Errorf("after it, %s: %d %s", c.what, r.StatusCode, text(t, r))
		}
	}
}

// A source that asks whoever floods it to ask again does not lose that it is a flood.
func TestAFloodOfUnknownTokensIsAFloodBeforeAllIsKnown(t *testing.T) {
	err := retryUntilSynced(errors.Join(errTooManyFailures, &join.InvalidError{Reason: join.Unknown}))
	if !isRateLimited(err) {
		t.Errorf("got %v", err)
	}
}
