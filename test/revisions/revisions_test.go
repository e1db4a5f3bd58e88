package revisions

import (
	"flag"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
)

var (
	histories = flag.Int("histories", 800, "how many random histories to play; a change to what they judge "+
		"deserves 10000")
	from = flag.Uint64("from", 1, "the seed of the first of them")
	most = flag.Int("failures", 1, "how many failing histories each part reports at most")
	seed = flag.Uint64("seed", 0, "play the history of this seed alone, and print its story")
)

// TestRevisions plays random histories. One that breaks a rule is made small and printed; -seed plays it again.
func TestRevisions(t *testing.T) {
	if *seed != 0 {
		check(t, *seed)
		return
	}
	count := *histories
	if testing.Short() {
		count /= 10
	}
	collectRarely(t)
	var assignments, applies, restores, next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		t.Run("part", func(t *testing.T) {
			t.Parallel()
			for broken := 0; broken < *most; {
				s := uint64(next.Add(1)) - 1
				if s >= uint64(count) {
					return
				}
				r := Play(Random(*from+s), Real())
				assignments.Add(int64(r.Assignments))
				applies.Add(int64(r.Applies))
				restores.Add(int64(r.Restores))
				if r.Broken != "" {
					check(t, *from+s)
					broken++
				}
			}
		})
	}
	t.Cleanup(func() {
		t.Logf("%d histories: %d revisions were applied, %d applies or restores ended, nodes were assigned a config "+
			"%d times", count, applies.Load(), restores.Load(), assignments.Load())
		if !t.Failed() && count >= 100 && (applies.Load() < 2*int64(count) || assignments.Load() < 2*int64(count)) {
			t.Error("too little happens in these histories to find anything")
		}
	})
}

// collectRarely lets the heap grow until the test ends: a history is garbage as soon as it is played.
func collectRarely(t *testing.T) {
	t.Helper()
	was := debug.SetGCPercent(800)
	t.Cleanup(func() { debug.SetGCPercent(was) })
}

// check plays the history of a seed, and prints the smallest one that breaks the same rule.
func check(t *testing.T, seed uint64) {
	t.Helper()
	h := Random(seed)
	if r := Play(h, Real()); r.Broken == "" {
		t.Logf("seed %d: every rule held, in %d steps\n%s", seed, len(h.Steps), Story(h, Real()))
		return
	}
	small := Shrink(h, Real())
	t.Errorf("seed %d breaks a rule; go test ./test/revisions -run TestRevisions -seed %d plays it again. Of %d "+
		"steps these %d do it:\n%s",
		seed, seed, len(h.Steps), len(small.Steps), Story(small, Real()))
}

// TestPlayingTwiceGivesTheSame: a story is a function of its history.
func TestPlayingTwiceGivesTheSame(t *testing.T) {
	for s := range uint64(20) {
		h := Random(s + 1)
		if first, second := Story(h, Real()), Story(h, Real()); first != second {
			t.Fatalf("seed %d gives two stories:\n%s\n%s", s+1, first, second)
		}
	}
}

// BenchmarkHistory is what one costs.
func BenchmarkHistory(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		Play(Random(uint64(i%1000+1)), Real())
	}
}
