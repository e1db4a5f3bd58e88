package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bunsen-os/bunsen/mcs"
)

// TestHowManyBootstrapTokensAreCreatedAtATime joins machines in an order, and counts those that need not wait.
func TestHowManyBootstrapTokensAreCreatedAtATime(t *testing.T) {
	for because, c := range map[string]struct {
		join string // TOKEN@SOURCE, or N*TOKEN@SOURCE
		want string
	}{
		"there is room":                {"a@1 b@2", "a@1:1 b@2:1"},
		"an address has a quarter":     {"99*a@1", "a@1:8"},
		"a token has half":             {"99*a@1 99*a@2 99*a@3", "a@1:8 a@2:8 a@3:0"},
		"another token begins at once": {"99*a@1 99*a@2 b@1", "a@1:8 a@2:8 b@1:1"},
		"open access is by address":    {"99*@1 99*@2 @3", "@1:8 @2:8 @3:1"},
	} {
		t.Run(because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := begun(t, c.join); got != c.want {
					t.Errorf("under way are %s, want %s", got, c.want)
				}
			})
		})
	}
}

func begun(t *testing.T, join string) string {
	var limits ShareLimits
	names := map[string]int{}
	started := make(chan string, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	defer synctest.Wait()
	defer cancel()
	for word := range strings.FieldsSeq(join) {
		n, name := 1, word
		if times, rest, ok := strings.Cut(word, "*"); ok {
			name = rest
			if _, err := fmt.Sscan(times, &n); err != nil {
				t.Fatal(err)
			}
		}
		names[name] = 0
		token, source, _ := strings.Cut(name, "@")
		r := RequesterOf(mcs.JoiningMachine{Token: token, Address: "192.0.2." + source})
		for range n {
			go func() {
				if _, err := limits.Begin(ctx, r, morning); err == nil {
					started <- name
				}
			}()
			synctest.Wait()
		}
	}
	for range len(started) {
		names[<-started]++
	}
	var got []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		got = append(got, fmt.Sprint(name, ":", names[name]))
	}
	return strings.Join(got, " ")
}

func TestWhoGivesUpWaitingHasTakenNothing(t *testing.T) {
	var limits ShareLimits
	m := RequesterOf(mcs.JoiningMachine{Token: "a", Address: "192.0.2.1"})
	for range maxSourceRequests {
		if _, err := limits.Begin(t.Context(), m, morning); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := limits.Begin(ctx, m, morning); !errors.Is(err, context.Canceled) {
		t.Errorf("one more: %v", err)
	}
	if limits.shares.reserved != maxSourceRequests {
		t.Errorf("%d are taken", limits.shares.reserved)
	}
}
