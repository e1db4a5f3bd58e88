package rollout_test

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// TestNoNodeInServiceIsToldAConfigWithoutItsFiles: a node that can download ahead gets the config after that, whatever
// else there is. What is announced is announced once.
func TestNoNodeInServiceIsToldAConfigWithoutItsFiles(t *testing.T) {
	told := 0
	for seed := range int64(rounds) {
		r := random{rand.New(rand.NewSource(seed))}
		f := carefulFacts(r)
		w := rollout.Next(f, noon)
		nodes := byNames(f)
		for _, a := range w.Assign {
			n := nodes[a.Node]
			if w.Record.Fetches && w.Target == f.Target && n.Ahead && n.Ready() && n.Done() &&
				n.Config.Current != a.Config && n.Of(a.Config.String(), noon) != poolstate.Downloaded {
				t.Fatalf("seed %d: %s is assigned %s without its files", seed, a.Node, a.Config)
			}
		}
		for _, a := range w.Announce {
			told++
			n := nodes[a.Node]
			n.Next = v1alpha1.ParseNextConfig(a.Next)
			for i := range f.Nodes {
				if f.Nodes[i].Name == a.Node {
					f.Nodes[i] = n
				}
			}
		}
		f.Care.Record = w.Record
		if again := rollout.Next(f, noon); len(again.Announce) > 0 && len(w.Assign)+len(w.Release) == 0 {
			t.Fatalf("seed %d: announced again: %v, before %v", seed, again.Announce, w.Announce)
		}
	}
	if told == 0 {
		t.Error("nothing was ever announced")
	}
}

// TestHowManyNodesDownload: as many as the budget, and 20 more; those that fail or do not answer take no place.
func TestHowManyNodesDownload(t *testing.T) {
	for sentence, c := range map[string]struct {
		node func(n *poolstate.Node, i int)
		want int
	}{
		"nobody downloads yet":                   {func(*poolstate.Node, int) {}, 23},
		"five download":                          {func(n *poolstate.Node, i int) { tell(n, i < 5, time.Minute, "") }, 18},
		"five have what they need":               {func(n *poolstate.Node, i int) { tell(n, i < 5, time.Minute, "has") }, 21},
		"five cannot download":                   {func(n *poolstate.Node, i int) { tell(n, i < 5, time.Hour, "the server answers 404") }, 23},
		"five have not answered":                 {func(n *poolstate.Node, i int) { tell(n, i < 5, time.Hour, "") }, 23},
		"all have daemons of an earlier version": {func(n *poolstate.Node, _ int) { n.Ahead = false }, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := poolstate.Facts{Pool: "worker", Target: version("v1"), MaxUnavailable: 3, Care: poolstate.Care{
				Healthy: version("v0"),
				Fetches: true,
			}}
			for i := range 200 {
				n := poolstate.Node{
					Name: fmt.Sprintf("n%03d", i), State: v1alpha1.StateDone,
					Config: poolstate.Configs{Current: version("v0"), Desired: version("v0")},
				}
				n.Ahead = true
				c.node(&n, i)
				f.Nodes = append(f.Nodes, n)
			}
			if w := rollout.Next(f, noon); len(w.Announce) != c.want {
				t.Errorf("%d nodes are told to download, want %d", len(w.Announce), c.want)
			}
		})
	}
}

// tell gives a node its next config and what it reports about it.
func tell(n *poolstate.Node, is bool, ago time.Duration, says string) {
	if !is {
		return
	}
	n.Next = v1alpha1.NextConfig{Config: "v1", Since: noon.Add(-ago)}
	if says != "" {
		n.Fetched = v1alpha1.FetchReport{Config: "v1", Problem: says}
	}
	if says == "has" {
		n.Fetched.Problem = ""
	}
}
