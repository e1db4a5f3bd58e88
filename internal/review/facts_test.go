package review

import (
	"math/rand"
	"strings"
	"testing"
)

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
	const a, b, m = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
		"cccccccccccccccccccccccccccccccccccccccc"
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
			if got := undo(Comparison{
				Base: "main", BaseCommit: c.base, HeadCommit: c.head, Pools: c.pools,
				folder: folder,
			}); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestEachNodeIsForecastOnce: a node with a config of its own counts in the entry of its change, and not in that of the
// other nodes of its pool. Rows of machines that do not exist count nowhere.
func TestEachNodeIsForecastOnce(t *testing.T) {
	entry := func(pool string, nodes ...string) PoolChange {
		return PoolChange{
			Pool: pool, From: "a", To: "b", Disruption: "reboot", Items: []Item{{Kind: "file"}},
			Remarks: Remarks{Nodes: nodes},
		}
	}
	for sentence, c := range map[string]struct {
		pools []PoolChange
		nodes int
		want  []int
	}{
		"no node has a config of its own":           {[]PoolChange{entry("worker")}, 3, []int{3}},
		"one node has":                              {[]PoolChange{entry("worker"), entry("worker (node n1)", "n1")}, 3, []int{2, 1}},
		"all nodes have":                            {[]PoolChange{entry("worker"), entry("worker (3 nodes)", "n1", "n2", "n3")}, 3, []int{0, 3}},
		"the table has rows of machines to come":    {[]PoolChange{entry("worker"), entry("worker (3 nodes)", "n1", "n2", "n3")}, 1, []int{0, 1}},
		"several nodes have different new configs":  {[]PoolChange{entry("worker"), entry("worker (node n1)", "n1"), entry("worker (node n2)", "n2")}, 4, []int{2, 1, 1}},
		"a pool whose name is the end of another's": {[]PoolChange{entry("edge"), entry("edge-worker")}, 2, []int{2, 0}},
	} {
		t.Run(sentence, func(t *testing.T) {
			facts := Facts{Pools: map[string]PoolFacts{"worker": {Nodes: c.nodes}, "edge": {Nodes: c.nodes}}}
			found := Comparison{Pools: c.pools}.WithFacts(facts)
			for i, want := range c.want {
				got := 0
				if r := found.Pools[i].Rollout; r != nil {
					got = r.Reboots
				}
				if got != want {
					t.Errorf("%s: %d nodes reboot, want %d", found.Pools[i].Pool, got, want)
				}
			}
		})
	}
}
