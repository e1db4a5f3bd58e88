package histories

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
)

var (
	histories = flag.Int("histories", 800, "how many random histories to play; a change to what they judge "+
		"deserves 10000")
	from = flag.Uint64("from", 1, "the seed of the first of them")
	most = flag.Int("failures", 1, "how many failing histories are told at most by each part")
	seed = flag.Uint64("seed", 0, "play the history of this seed alone, and tell its story")
)

// TestHistories plays random histories. One that breaks a rule is made small and told; -seed plays it again.
func TestHistories(t *testing.T) {
	if *seed != 0 {
		check(t, *seed)
		return
	}
	count := *histories
	if testing.Short() {
		count /= 10
	}
	collectRarely(t)
	var converged, explained, excused, tells atomic.Int64
	shards := runtime.GOMAXPROCS(0)
	for shard := range shards {
		t.Run(fmt.Sprintf("part %d of %d", shard+1, shards), func(t *testing.T) {
			t.Parallel()
			broken := 0
			for s := shard; s < count && broken < *most; s += shards {
				r := Play(Random(*from+uint64(s)), Real())
				converged.Add(int64(r.Ended.Converged))
				explained.Add(int64(r.Ended.Explained))
				excused.Add(int64(r.Ended.Excused))
				tells.Add(int64(r.Ended.Tells))
				if r.Broken != "" {
					check(t, *from+uint64(s))
					broken++
				}
			}
		})
	}
	t.Cleanup(func() {
		t.Logf("%d histories: nodes were told a config %d times; of the last rollouts %d ended, and %d said rightly "+
			"why not; with nothing in their way any more, %d still need a policy corrected",
			count, tells.Load(), converged.Load(), explained.Load(), excused.Load())
		if !t.Failed() && count >= 100 && (converged.Load() < int64(count)/2 || explained.Load() == 0 ||
			tells.Load() < int64(count)) {
			t.Error("the histories are too dull to find anything")
		}
	})
}

// collectRarely lets the heap grow until the test ends: a history is garbage as soon as it is played.
func collectRarely(t *testing.T) {
	t.Helper()
	was := debug.SetGCPercent(800)
	t.Cleanup(func() { debug.SetGCPercent(was) })
}

// check plays the history of a seed, and tells the smallest one that breaks the same rule.
func check(t *testing.T, seed uint64) {
	t.Helper()
	h := Random(seed)
	if r := Play(h, Real()); r.Broken == "" {
		t.Logf("seed %d: every rule held, in %d steps\n%s", seed, len(h.Steps), Story(h, Real()))
		return
	}
	small := Shrink(h, Real())
	t.Errorf("seed %d breaks a rule; go test ./test/histories -run TestHistories -seed %d plays it again. Of %d "+
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
