package review

import (
	"math/rand"
	"strings"
	"testing"
)

func TestForecasts(t *testing.T) {
	file := []Item{{Kind: "file", Path: "/etc/a", Change: "changed"}}
	for sentence, c := range map[string]struct {
		pool  PoolChange
		facts PoolFacts
		want  string
	}{
		"an unchanged pool does nothing":          {PoolChange{From: "a", To: "a", Disruption: "none"}, PoolFacts{Nodes: 40}, "40 nodes, 0 reboots, 0 drains, no time"},
		"a reload goes through all nodes quickly": {PoolChange{From: "a", To: "b", Disruption: "reload", Items: file}, PoolFacts{Nodes: 40}, "40 nodes, 0 reboots, 0 drains, 3–45 min"},
		"one node may take no time to speak of":   {PoolChange{From: "a", To: "b", Disruption: "none", Items: file}, PoolFacts{Nodes: 1}, "1 node, 0 reboots, 0 drains, up to 1 min"},
		"a drain moves pods":                      {PoolChange{From: "a", To: "b", Disruption: "drain", Items: file}, PoolFacts{Nodes: 4, MaxUnavailable: 2}, "4 nodes, 0 reboots, 4 drains, 1–30 min"},
		"a reboot takes longest":                  {PoolChange{From: "a", To: "b", Disruption: "reboot", Items: file}, PoolFacts{Nodes: 40}, "40 nodes, 40 reboots, 40 drains, 1.5–18 h"},
		"more at once are sooner done":            {PoolChange{From: "a", To: "b", Disruption: "reboot", Items: file}, PoolFacts{Nodes: 40, MaxUnavailable: 10}, "40 nodes, 40 reboots, 40 drains, 10 min – 2 h"},
		"another image is fetched first":          {PoolChange{From: "a", To: "b", Disruption: "reboot", Items: []Item{{Kind: "os-image"}}}, PoolFacts{Nodes: 8, MaxUnavailable: 2}, "8 nodes, 8 reboots, 8 drains, 10 min – 3 h"},
		"what is refused costs nothing":           {PoolChange{From: "a", To: "b", Disruption: "reboot", Items: file, Refused: []string{"x"}}, PoolFacts{Nodes: 8}, "8 nodes, 0 reboots, 0 drains, no time"},
		"a pool without nodes":                    {PoolChange{From: "a", To: "b", Disruption: "reboot", Items: file}, PoolFacts{}, "0 nodes, 0 reboots, 0 drains, no time"},
		"a pool that comes is not known":          {PoolChange{To: "b", Disruption: "reboot", Items: file}, PoolFacts{Nodes: 8}, "unknown"},
		"more than days are days":                 {PoolChange{From: "a", To: "b", Disruption: "reboot", Items: file}, PoolFacts{Nodes: 1000}, "1,000 nodes, 1,000 reboots, 1,000 drains, 24 h – 16 days"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c.pool.Pool = "p"
			got := "unknown"
			out := Comparison{Pools: []PoolChange{c.pool, {Pool: "other"}}}.WithFacts(Facts{Pools: map[string]PoolFacts{"p": c.facts}})
			if r := out.Pools[0].Rollout; r != nil {
				got = count(r.Nodes, "node") + ", " + count(r.Reboots, "reboot") + ", " + count(r.Drains, "drain") + ", " + r.words()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if out.Pools[1].Rollout != nil {
				t.Error("a pool of which nothing is known has a forecast")
			}
		})
	}
}

// TestEstimatesAreRoundedOutwards: the range that is said holds the range that was reckoned.
func TestEstimatesAreRoundedOutwards(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 10_000 {
		s := r.Intn(1_000_000)
		if low, high := roundDown(s)*60, roundUp(s)*60; low > s || high < s || s > 120 && (low*3 < s || high > s*3) {
			t.Fatalf("%d s is between %d and %d", s, low, high)
		}
	}
}

func TestTheLineThatUndoes(t *testing.T) {
	const a, b, m = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "cccccccccccccccccccccccccccccccccccccccc"
	changed := []PoolChange{{From: "x", To: "y"}}
	for sentence, c := range map[string]struct {
		base, head *Commit
		pools      []PoolChange
		want       string
	}{
		"nothing changed":                 {&Commit{Hash: a}, &Commit{Hash: b}, nil, ""},
		"a commit on top of base":         {&Commit{Hash: a}, &Commit{Hash: b, Parents: []string{a}}, changed, "git revert bbbbbbbb"},
		"a commit whose parents are lost": {&Commit{Hash: a}, &Commit{Hash: b}, changed, "git restore --source=aaaaaaaa --staged --worktree :/"},
		"what runs in a cluster":          {nil, &Commit{Hash: b, Parents: []string{m}}, changed, "restore the files of main; every pool then returns to its earlier rendered config"},
		"a merge into base":               {&Commit{Hash: a}, &Commit{Hash: b, Parents: []string{a, m}}, changed, "git revert -m 1 bbbbbbbb"},
		"several commits":                 {&Commit{Hash: a}, &Commit{Hash: b, Parents: []string{m}}, changed, "git restore --source=aaaaaaaa --staged --worktree :/"},
		"a folder of a larger repository": {&Commit{Hash: a}, &Commit{Hash: b}, changed, "git restore --source=aaaaaaaa --staged --worktree ':/nodes of x'"},
		"a directory":                     {&Commit{Hash: a}, nil, changed, "restore the files of main; every pool then returns to its earlier rendered config"},
	} {
		t.Run(sentence, func(t *testing.T) {
			folder := ""
			if strings.Contains(sentence, "larger") {
				folder = "nodes of x"
			}
			if got := undo(Comparison{Base: "main", BaseCommit: c.base, HeadCommit: c.head, Pools: c.pools, folder: folder}); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
