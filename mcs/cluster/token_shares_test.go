package cluster

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/mcs"
)

var morning = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)

// However often a token is used: the bootstrap tokens that are good at once have an end, others get theirs, and there
// are new ones as those end.
func TestBootstrapTokensAreNotMintedWithoutEnd(t *testing.T) {
	c, got := refusingCluster(t, metav1.StatusReasonForbidden, 0)
	now := morning
	c.Now = func() time.Time { return now }
	leaked := mcs.JoiningMachine{Pool: "worker", Token: "aaaaaaaaaa", Address: "192.0.2.1"}
	mint := func(m mcs.JoiningMachine) (share mcs.Share) {
		_, err := c.CreateBootstrapToken(t.Context(), m)
		if refused := new(mcs.ShareError); errors.As(err, &refused) {
			return refused.Share
		} else if err != nil {
			t.Fatal(err)
		}
		return ""
	}
	for range tokensPerHour/4 - 1 {
		end, err := c.tokenLimits.Begin(t.Context(), RequesterOf(leaked), now)
		if err != nil {
			t.Fatalf("the share is spent too early: %v", err)
		}
		end(true, now)
	}
	if share := mint(leaked); share != "" {
		t.Fatalf("the last one: %s", share)
	}
	for _, later := range []time.Duration{0, 30 * time.Minute, 29 * time.Minute} {
		now = now.Add(later)
		if share := mint(leaked); share != mcs.ShareOfAddress {
			t.Errorf("at %s: %q", now, share)
		}
		if share := mint(mcs.JoiningMachine{Pool: "worker", Token: "bbbbbbbbbb", Address: "192.0.2.2"}); share != "" {
			t.Errorf("another token at %s: %s", now, share)
		}
	}
	now = now.Add(time.Minute)
	if share := mint(leaked); share != "" || len(*got) != 5 {
		t.Errorf("an hour later: %q after %d", share, len(*got))
	}
}

// left counts the bootstrap tokens that a machine may still have.
func left(t *testing.T, limits *ShareLimits, m mcs.JoiningMachine) (n int) {
	t.Helper()
	for {
		end, err := limits.Begin(t.Context(), RequesterOf(m), morning)
		if err != nil {
			return n
		}
		end(true, morning)
		n++
	}
}

// What the API server did not take is not counted: a storm of machines that ask again and again while it is away does
// not use up what they need when it is back.
func TestWhatWasNotMintedDoesNotCount(t *testing.T) {
	machine := mcs.JoiningMachine{Pool: "worker"}
	all := left(t, new(ShareLimits), machine)
	for says, c := range map[string]struct{ away, mints, want int }{
		"one that is forbidden":                      {1, 1, all},
		"one that is forbidden, and one that is not": {1, 2, all - 1},
	} {
		api, _ := refusingCluster(t, metav1.StatusReasonForbidden, c.away)
		api.Now = func() time.Time { return morning }
		for i := range c.mints {
			if _, err := api.CreateBootstrapToken(t.Context(), machine); (err == nil) == (i < c.away) {
				t.Fatalf("%s: %v", says, err)
			}
		}
		if got := left(t, &api.tokenLimits, machine); got != c.want {
			t.Errorf("%s: %d are left, want %d", says, got, c.want)
		}
	}
}
