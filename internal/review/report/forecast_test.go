package report

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/review"
)

func TestForecasts(t *testing.T) {
	file := []review.Item{{Kind: "file", Path: "/etc/a", Change: "changed"}}
	for sentence, c := range map[string]struct {
		pool  review.PoolChange
		facts review.PoolFacts
		want  string
	}{
		"an unchanged pool does nothing":          {review.PoolChange{From: "a", To: "a", Disruption: "none"}, review.PoolFacts{Nodes: 40}, "40 nodes, 0 reboots, 0 drains, no time"},
		"a reload goes through all nodes quickly": {review.PoolChange{From: "a", To: "b", Disruption: "reload", Items: file}, review.PoolFacts{Nodes: 40}, "40 nodes, 0 reboots, 0 drains, 3–45 min"},
		"one node may take no time to speak of":   {review.PoolChange{From: "a", To: "b", Disruption: "none", Items: file}, review.PoolFacts{Nodes: 1}, "1 node, 0 reboots, 0 drains, up to 1 min"},
		"a drain moves pods":                      {review.PoolChange{From: "a", To: "b", Disruption: "drain", Items: file}, review.PoolFacts{Nodes: 4, MaxUnavailable: 2}, "4 nodes, 0 reboots, 4 drains, 1–30 min"},
		"a reboot takes longest":                  {review.PoolChange{From: "a", To: "b", Disruption: "reboot", Items: file}, review.PoolFacts{Nodes: 40}, "40 nodes, 40 reboots, 40 drains, 1.5–18 h"},
		"more at once are sooner done":            {review.PoolChange{From: "a", To: "b", Disruption: "reboot", Items: file}, review.PoolFacts{Nodes: 40, MaxUnavailable: 10}, "40 nodes, 40 reboots, 40 drains, 10 min – 2 h"},
		"another image is fetched first":          {review.PoolChange{From: "a", To: "b", Disruption: "reboot", Items: []review.Item{{Kind: "os-image"}}}, review.PoolFacts{Nodes: 8, MaxUnavailable: 2}, "8 nodes, 8 reboots, 8 drains, 10 min – 3 h"},
		"what is refused costs nothing":           {review.PoolChange{From: "a", To: "b", Disruption: "reboot", Items: file, Refused: []string{"x"}}, review.PoolFacts{Nodes: 8}, "8 nodes, 0 reboots, 0 drains, no time"},
		"a pool without nodes":                    {review.PoolChange{From: "a", To: "b", Disruption: "reboot", Items: file}, review.PoolFacts{}, "0 nodes, 0 reboots, 0 drains, no time"},
		"a pool that comes is not known":          {review.PoolChange{To: "b", Disruption: "reboot", Items: file}, review.PoolFacts{Nodes: 8}, "unknown"},
		"more than days are days":                 {review.PoolChange{From: "a", To: "b", Disruption: "reboot", Items: file}, review.PoolFacts{Nodes: 1000}, "1,000 nodes, 1,000 reboots, 1,000 drains, 24 h – 16 days"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c.pool.Pool = "p"
			got := "unknown"
			out := review.Comparison{Pools: []review.PoolChange{c.pool, {Pool: "other"}}}.WithFacts(
				review.Facts{Pools: map[string]review.PoolFacts{"p": c.facts}})
			if r := out.Pools[0].Rollout; r != nil {
				got = count(r.Nodes, "node") + ", " + count(r.Reboots, "reboot") + ", " + count(r.Drains, "drain") +
					", " + DurationText(*r)
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

// TestPodsThatStay: a reviewer reads that pods go down with their node, if it reboots and the cluster is known.
func TestPodsThatStay(t *testing.T) {
	file := []review.Item{{Kind: "file", Path: "/etc/motd"}}
	for sentence, c := range map[string]struct {
		disruption string
		facts      review.PoolFacts
		want       string
	}{
		"the only worker reboots with its pods": {
			"reboot",
			review.PoolFacts{Nodes: 1, Alone: []string{"n0"}},
			"pods of worker go down with the reboot: the pods of 1 node are not evicted",
		},
		"so do masters that run them": {
			"reboot",
			review.PoolFacts{Nodes: 3, Alone: []string{"n0", "n1", "n2"}},
			"pods of worker go down with the reboot: the pods of 3 nodes are not evicted",
		},
		"a drain without a reboot ends no pod":        {"drain", review.PoolFacts{Nodes: 1, Alone: []string{"n0"}}, ""},
		"nothing is said of a node that is not known": {"reboot", review.PoolFacts{Nodes: 1}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := review.Comparison{Pools: []review.PoolChange{{
				Pool: "worker", From: "a", To: "b", Disruption: c.disruption, Items: file,
			}}}.WithFacts(review.Facts{Pools: map[string]review.PoolFacts{"worker": c.facts}})
			text := strings.Join(warnings(got), "\n")
			if c.want == "" && strings.Contains(text, "evicted") || !strings.Contains(text, c.want) {
				t.Errorf("it says:\n%s", text)
			}
			var b strings.Builder
			writeCallouts(got, &b, 10_000)
			if strings.Contains(b.String(), "go down with the reboot") != (c.want != "") {
				t.Errorf("the comment says:\n%s", &b)
			}
		})
	}
}

// TestAnAppliedConfig: of a commit that is merged, the terminal says how far its rollout is, and why it stopped.
func TestAnAppliedConfig(t *testing.T) {
	for sentence, c := range map[string]struct {
		facts review.PoolFacts
		want  string
	}{
		"another config is the target": {review.PoolFacts{Nodes: 8, Target: "a", Updated: 8}, ""},
		"the target is not known":      {review.PoolFacts{Nodes: 8}, ""},
		"its rollout goes on": {
			review.PoolFacts{Nodes: 8, Target: "b", Updated: 3},
			"; already the pool's target: 3 of 8 nodes run it\n",
		},
		"its rollout is halted": {
			review.PoolFacts{Nodes: 8, Target: "b", Stopped: "Halted"},
			"; already the pool's target: 0 of 8 nodes run it, and the rollout is stopped (Halted): " +
				"bunsen why pool/worker\n",
		},
		"a reason that a program made up stays on its line": {
			review.PoolFacts{Nodes: 8, Target: "b", Stopped: "a\n::error::b"},
			`(a\n::error::b): bunsen why pool/worker` + "\n",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := Text(review.Comparison{Pools: []review.PoolChange{{
				Pool: "worker", From: "a", To: "b", Disruption: "reboot",
				Items: []review.Item{{Kind: "file", Path: "/a"}},
			}}}.WithFacts(review.Facts{Pools: map[string]review.PoolFacts{"worker": c.facts}}), Style{})
			if c.want == "" && strings.Contains(got, "already") || !strings.Contains(got, c.want) {
				t.Errorf("it says:\n%s", got)
			}
		})
	}
}
