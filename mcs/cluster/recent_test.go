package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRecentKeepsWhatWasNeededLast plays random requests.
func TestRecentKeepsWhatWasNeededLast(t *testing.T) {
	for seed := range uint64(50) {
		g := rand.New(rand.NewPCG(seed, 5))
		r := RecentVariants{Most: 1 + g.IntN(6), MostBytes: 100}
		var last []string // without repetitions, the newest first
		sizes, kept := map[string]int{}, map[string]bool{}
		for range 200 {
			name := fmt.Sprint(g.IntN(10))
			last = append([]string{name}, slices.DeleteFunc(last, func(n string) bool { return n == name })...)
			sizes[name], kept[name] = g.IntN(60), true
			for _, gone := range r.Use(name, sizes[name]) {
				if !kept[gone] {
					t.Fatalf("seed %d: %s is removed twice", seed, gone)
				}
				kept[gone] = false
			}
			bytes, count, ended := 0, 0, false
			for _, n := range last {
				if !kept[n] {
					ended = true
					continue
				}
				if bytes, count = bytes+sizes[n], count+1; ended {
					t.Fatalf("seed %d: %s is kept, and a config that was needed later is not: %v %v", seed, n, last,
						kept)
				}
			}
			if count > r.Most || bytes > r.MostBytes || !kept[name] {
				t.Fatalf("seed %d: %d configs with %d bytes: %v", seed, count, bytes, kept)
			}
		}
	}
}
