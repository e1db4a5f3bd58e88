package review

import (
	"encoding/json"
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
// other nodes of its pool. Rows of machines that do not exist count nowhere, and with the names of the nodes the entry
// names them. A node whose own config stays counts nowhere.
func TestEachNodeIsForecastOnce(t *testing.T) {
	entry := func(pool string, nodes ...string) PoolChange {
		return PoolChange{
			Pool: pool, From: "a", To: "b", Disruption: "reboot", Items: []Item{{Kind: "file"}},
			Remarks: Remarks{Nodes: nodes},
		}
	}
	same := PoolChange{Pool: "worker", From: "a", To: "a", Disruption: "none"}
	for sentence, c := range map[string]struct {
		pools []PoolChange
		nodes int
		names []string
		// stays are nodes whose own config stays.
		stays []string
		want  []int
		// absent are the nodes that do not exist, and all is the number of reboots in the forecast of the whole pool.
		absent string
		all    int
	}{
		"no node has a config of its own":           {pools: []PoolChange{entry("worker")}, nodes: 3, want: []int{3}, all: 3},
		"one node has":                              {pools: []PoolChange{entry("worker"), entry("worker (node n1)", "n1")}, nodes: 3, want: []int{2, 1}, all: 3},
		"all nodes have":                            {pools: []PoolChange{entry("worker"), entry("worker (3 nodes)", "n1", "n2", "n3")}, nodes: 3, want: []int{0, 3}, all: 3},
		"the table has rows of machines to come":    {pools: []PoolChange{entry("worker"), entry("worker (3 nodes)", "n1", "n2", "n3")}, nodes: 1, want: []int{0, 1}, all: 1},
		"several nodes have different new configs":  {pools: []PoolChange{entry("worker"), entry("worker (node n1)", "n1"), entry("worker (node n2)", "n2")}, nodes: 4, want: []int{2, 1, 1}, all: 4},
		"a pool whose name is the end of another's": {pools: []PoolChange{entry("edge"), entry("edge-worker")}, nodes: 2, want: []int{2, 0}},
		"one own config of two stays":               {pools: []PoolChange{entry("worker"), entry("worker (node n1)", "n1")}, nodes: 3, stays: []string{"n2"}, want: []int{1, 1}, all: 2},

		"names: no node has its own":      {pools: []PoolChange{entry("worker")}, names: []string{"n1", "n2"}, want: []int{2}, all: 2},
		"names: rows of machines to come": {pools: []PoolChange{entry("worker"), entry("worker (3 nodes)", "n1", "n8", "n9")}, names: []string{"n1", "n2"}, want: []int{1, 1}, absent: "n8 n9", all: 2},
		"names: no row has a machine":     {pools: []PoolChange{entry("worker"), entry("worker (2 nodes)", "n8", "n9")}, names: []string{"n1", "n2", "n3"}, want: []int{3, 0}, absent: "n8 n9", all: 3},
		"names: one own config stays":     {pools: []PoolChange{entry("worker"), entry("worker (node n1)", "n1")}, names: []string{"n1", "n2", "n3"}, stays: []string{"n2", "n9"}, want: []int{1, 1}, all: 2},
		"names: only a row changes":       {pools: []PoolChange{same, entry("worker (node n1)", "n1")}, names: []string{"n1", "n2", "n3"}, stays: []string{"n2"}, want: []int{0, 1}, all: 1},
		"names: an empty pool":            {pools: []PoolChange{entry("worker"), entry("worker (node n1)", "n1")}, names: []string{}, want: []int{0, 0}, absent: "n1"},
	} {
		t.Run(sentence, func(t *testing.T) {
			if c.names != nil {
				c.nodes = len(c.names)
			}
			facts := Facts{Pools: map[string]PoolFacts{
				"worker": {Nodes: c.nodes, Names: c.names}, "edge": {Nodes: c.nodes},
			}}
			own := map[string]bool{}
			for _, p := range c.pools {
				for _, node := range p.Nodes {
					own[node] = true
				}
			}
			for _, node := range c.stays {
				own[node] = true
			}
			found := Comparison{Pools: c.pools, own: map[string]map[string]bool{"worker": own}}.WithFacts(facts)
			absent := []string{}
			for i, want := range c.want {
				got := 0
				if r := found.Pools[i].Rollout; r != nil {
					got = r.Reboots
				}
				if got != want {
					t.Errorf("%s: %d nodes reboot, want %d", found.Pools[i].Pool, got, want)
				}
				absent = append(absent, found.Pools[i].Absent...)
			}
			if got := strings.Join(absent, " "); got != c.absent {
				t.Errorf("the nodes that do not exist are %q, want %q", got, c.absent)
			}
			if all, _ := found.RolloutOf("worker"); all.Reboots != c.all {
				t.Errorf("%d nodes of the pool reboot, want %d", all.Reboots, c.all)
			}
			again, err := json.Marshal(found.WithFacts(facts))
			text, wrong := json.Marshal(found)
			if err != nil || wrong != nil || string(again) != string(text) {
				t.Errorf("the facts twice give another forecast:\n%s\n%s", text, again)
			}
		})
	}
}

// TestAPoolIsOneRollout: the entries of a pool share its limit of nodes that are away at once, and a pool whose entries
// take equally long takes as long as one entry of all of its nodes.
func TestAPoolIsOneRollout(t *testing.T) {
	entry := func(disruption string, nodes ...string) PoolChange {
		return PoolChange{
			Pool: "worker (some)", From: "a", To: "b", Disruption: disruption, Items: []Item{{Kind: "file"}},
			Remarks: Remarks{Nodes: nodes},
		}
	}
	names := []string{"n1", "n2", "n3", "n4", "n5", "n6"}
	own := map[string]bool{}
	for _, name := range names {
		own[name] = true
	}
	forecastOf := func(pools ...PoolChange) Rollout {
		t.Helper()
		facts := Facts{Pools: map[string]PoolFacts{"worker": {Nodes: 6, Names: names, MaxUnavailable: 3}}}
		r, known := Comparison{Pools: pools, own: map[string]map[string]bool{"worker": own}}.WithFacts(facts).RolloutOf(
			"worker")
		if !known {
			t.Fatal("the pool has no forecast")
		}
		return r
	}
	whole := forecastOf(entry("reboot", names...))
	for _, parts := range [][]PoolChange{
		{entry("reboot", names[:1]...), entry("reboot", names[1:]...)},
		{entry("reboot", "n1"), entry("reboot", "n2"), entry("reboot", "n3"), entry("reboot", names[3:]...)},
	} {
		if got := forecastOf(parts...); got != whole {
			t.Errorf("%d entries are forecast as %+v, and one as %+v", len(parts), got, whole)
		}
	}
	mixed := forecastOf(entry("restart", names[3:]...), entry("reboot", names[:3]...))
	if mixed.Reboots != 3 || mixed.Drains != 3 || mixed.Nodes != 6 || mixed.MaxMinutes >= whole.MaxMinutes ||
		mixed.MaxMinutes <= forecastOf(entry("restart", names...)).MaxMinutes {
		t.Errorf("a restart of three nodes and a reboot of three is forecast as %+v", mixed)
	}
}
