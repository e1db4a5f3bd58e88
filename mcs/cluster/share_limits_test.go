package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcs"
)

// begun reports whether a request is under way.
func (t *queuedRequest) isBegun() bool {
	select {
	case <-t.started:
		return true
	default:
		return false
	}
}

func TestWhoseBootstrapTokenIsNext(t *testing.T) {
	machine := func(name string) Requester {
		token, source, _ := strings.Cut(name, "@")
		return RequesterOf(mcs.JoiningMachine{Token: token, Address: "192.0.2." + source})
	}
	for because, c := range map[string]struct {
		join  string // TOKEN@SOURCE, or N*TOKEN@SOURCE
		leave int    // that many of those that have begun, the first ones first
		want  string // how many of each have begun then
	}{
		"there is room":                                        {"a@1 b@2", 0, "a@1:1 b@2:1"},
		"an address has a quarter":                             {"99*a@1", 0, "a@1:8"},
		"a token has half":                                     {"99*a@1 99*a@2 99*a@3", 0, "a@1:8 a@2:8 a@3:0"},
		"another token begins at once":                         {"99*a@1 99*a@2 b@1", 0, "a@1:8 a@2:8 b@1:1"},
		"the one with fewest under way is next":                {"99*a@1 99*a@2 99*b@3 99*b@4 c@5", 1, "a@1:7 a@2:8 b@3:8 b@4:8 c@5:1"},
		"of a token, the address with fewest under way":        {"99*a@1 99*a@2 a@3", 1, "a@1:7 a@2:8 a@3:1"},
		"of those with as many, who has waited for longest":    {"99*a@1 99*a@2 99*b@3 99*b@4 d@6 c@5", 1, "a@1:7 a@2:8 b@3:8 b@4:8 c@5:0 d@6:1"},
		"open access is by address":                            {"99*@1 99*@2 @3", 0, "@1:8 @2:8 @3:1"},
		"two tokens that take what they get are followed soon": {"99*a@1 99*a@2 99*b@3 99*b@4 9*c@5", 9, "a@1:1 a@2:7 b@3:8 b@4:8 c@5:8"},
	} {
		var queue requestQueue
		all, names := []*queuedRequest(nil), map[string]int{}
		for word := range strings.FieldsSeq(c.join) {
			n, name := 1, word
			if times, rest, ok := strings.Cut(word, "*"); ok {
				name = rest
				if _, err := fmt.Sscan(times, &n); err != nil {
					t.Fatal(err)
				}
			}
			names[name] = 0
			for range n {
				all = append(all, queue.add(machine(name)))
			}
		}
		left := map[*queuedRequest]bool{}
		for _, w := range all {
			if len(left) < c.leave && w.isBegun() {
				queue.remove(w)
				left[w] = true
			}
		}
		for name := range names {
			for _, w := range all {
				if w.by == machine(name) && w.isBegun() && !left[w] {
					names[name]++
				}
			}
		}
		var got []string
		for name := range names {
			got = append(got, fmt.Sprint(name, ":", names[name]))
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: under way are %s, want %s", because, text, c.want)
		}
	}
}

// Whatever comes and goes: nobody has more than its part, and none waits while there is room for it.
func TestNoTurnIsLost(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 2))
		var queue requestQueue
		var all []*queuedRequest
		for range 2000 {
			if len(all) > 0 && random.IntN(2) == 0 {
				i := random.IntN(len(all))
				queue.remove(all[i])
				all = append(all[:i], all[i+1:]...)
			} else {
				all = append(all,
					queue.add(RequesterOf(mcs.JoiningMachine{
						Token:   fmt.Sprint(random.IntN(4)),
						Address: fmt.Sprint("192.0.2.", random.IntN(3)),
					})))
			}
			underWay, ofHolder, ofMinter := 0, map[string]int{}, map[Requester]int{}
			for _, w := range all {
				if w.isBegun() {
					underWay++
					ofHolder[w.by.holder]++
					ofMinter[w.by]++
				}
			}
			for _, w := range all {
				h, s := ofHolder[w.by.holder], ofMinter[w.by]
				if underWay > maxRequests || h > maxHolderRequests || s > maxSourceRequests {
					t.Fatalf("seed %d: %d are under way, %d of %v, %d of its source", seed, underWay, h, w.by, s)
				}
				if !w.isBegun() && underWay < maxRequests && h < maxHolderRequests && s < maxSourceRequests {
					t.Fatalf("seed %d: %v waits while there is room", seed, w.by)
				}
			}
		}
		for _, w := range all {
			queue.remove(w)
		}
		if queue.running+len(queue.waiting)+len(queue.byHolder)+len(queue.byRequester) != 0 {
			t.Fatalf("seed %d: in the end %+v", seed, queue)
		}
	}
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
	if limits.shares.reserved != maxSourceRequests || len(limits.queue.waiting) != 0 {
		t.Errorf("%d are taken, %d wait", limits.shares.reserved, len(limits.queue.waiting))
	}
}
