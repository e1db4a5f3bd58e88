package tokens

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestUnusedTokensAreDropped: sources come and go, and their Secrets change, so entries must not stay forever.
func TestUnusedTokensAreDropped(t *testing.T) {
	var c cache[string]
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	requests := 0
	get := func(key string, at time.Time) {
		t.Helper()
		got, err := c.token(t.Context(), key, "a token", at, func(context.Context) (string, time.Duration, error) {
			requests++
			return "of " + key, 24 * time.Hour, nil
		})
		if err != nil || got != "of "+key {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	for i := range maxKnown + 10 {
		get(fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	if len(c.known) != maxKnown || c.known["0"] != nil || c.known["10"] == nil {
		t.Errorf("%d tokens are known", len(c.known))
	}
	before := requests
	get("10", now.Add(longestUse-time.Second))
	if requests != before {
		t.Error("a valid token was requested again")
	}
	get("new", now.Add(unusedAfter+time.Minute))
	if len(c.known) != 2 {
		t.Errorf("%d tokens are known, want the used and the new one", len(c.known))
	}
}

// TestAFailureIsSharedForAWhile: a service that fails gets no more requests, and one source that gives up decides
// nothing for the others.
func TestAFailureIsSharedForAWhile(t *testing.T) {
	var c cache[string]
	now, requests := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC), 0
	failed := errors.New("no")
	get := func(ctx context.Context, at time.Time) error {
		_, err := c.token(ctx, "a", "a token", at, func(context.Context) (string, time.Duration, error) {
			requests++
			return "", 0, failed
		})
		return err
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = get(ended, now)
	requests = 0
	for _, at := range []time.Time{now, now.Add(failurePause - 1)} {
		if err := get(t.Context(), at); !errors.Is(err, failed) || requests != 1 {
			t.Errorf("%v after %d requests", err, requests)
		}
	}
	if _ = get(t.Context(), now.Add(failurePause)); requests != 2 {
		t.Errorf("%d requests after the pause", requests)
	}
}
