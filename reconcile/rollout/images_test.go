package rollout_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// TestNodesPullImagesBeforeTheyGetAConfig: a node in service with a daemon that pulls is assigned a config once it has
// the images of its pool's sets. The other node of the pool is updated meanwhile.
func TestNodesPullImagesBeforeTheyGetAConfig(t *testing.T) {
	ago := func(d time.Duration) *metav1.Time { at := metav1.NewTime(noon.Add(-d)); return &at }
	for sentence, c := range map[string]struct {
		node func(*poolstate.Node)
		// assigned is whether the node is assigned the config; why is what Explain says; blocked is the cause of the
		// pool's block.
		assigned     bool
		why, blocked string
	}{
		"it waits for its turn":            {func(*poolstate.Node) {}, false, "waits for its turn to pull the images", ""},
		"it pulls":                         {func(n *poolstate.Node) { n.Pin = v1alpha1.PinRequest{Digest: "d2", Since: ago(time.Minute)} }, false, "pulls the images of its PinnedImageSets before it is drained, since", ""},
		"it has not answered for long":     {func(n *poolstate.Node) { n.Pin = v1alpha1.PinRequest{Digest: "d2", Since: ago(time.Hour)} }, false, "pulls the images", "Fetch"},
		"it has those of the earlier sets": {func(n *poolstate.Node) { n.Pinned.Digest = "d1" }, false, "waits for its turn", ""},
		"it cannot pull one":               {func(n *poolstate.Node) { n.Pinned = v1alpha1.PinReport{Digest: "d2", Problem: "pulling x: 401"} }, false, "cannot pull the images of its PinnedImageSets, and stays in service until it can: pulling x: 401", "Fetch"},
		"it has all":                       {func(n *poolstate.Node) { n.Pinned.Digest = "d2" }, true, "", ""},
		"its daemon knows no sets":         {func(n *poolstate.Node) { n.Pins = false }, true, "", ""},
		"the pool has no sets":             {func(n *poolstate.Node) { n.Images = "" }, true, "", ""},
		"it failed another config already": {func(n *poolstate.Node) {
			n.State, n.Config.Desired = v1alpha1.StateDegraded, version("v0b")
		}, true, "", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			n := poolstate.Node{Name: "n1", State: v1alpha1.StateDone, Config: poolstate.Configs{
				Current: version("v0"),
				Desired: version("v0"),
			}}
			n.Images, n.Pins = "d2", true
			c.node(&n)
			f := poolstate.Facts{
				Pool: "worker", Target: version("v1"), MaxUnavailable: 1, Care: poolstate.Care{Healthy: version("v0")},
				Nodes: []poolstate.Node{n},
			}
			w := rollout.Next(f, noon)
			if (len(w.Assign) == 1) != c.assigned {
				t.Errorf("it assigns %v", w.Assign)
			}
			why := ""
			if waits := rollout.Explain(f, w, noon); len(waits) > 0 {
				why = waits[0].Reason
			}
			if !strings.Contains(why, c.why) || c.why == "" && why != "" {
				t.Errorf("it says %q", why)
			}
			blocked := ""
			if len(w.Blocks) > 0 {
				blocked = string(w.Blocks[0].Cause)
			}
			if blocked != c.blocked {
				t.Errorf("the pool is blocked by %v", w.Blocks)
			}
			if c.why != "" && strings.HasPrefix(c.why, "pulls the images of") && w.RequeueAfter == 0 {
				t.Error("nothing looks again when the pull takes too long")
			}
			other := poolstate.Node{Name: "n2", State: v1alpha1.StateDone, Config: poolstate.Configs{
				Current: version("v0"),
				Desired: version("v0"),
			}}
			other.Images, other.Pins, other.Pinned.Digest = n.Images, true, n.Images
			f.Nodes = append(f.Nodes, other)
			if w := rollout.Next(f, noon); !c.assigned && (len(w.Assign) != 1 || w.Assign[0].Node != "n2") {
				t.Errorf("with another node, it assigns %v", w.Assign)
			}
		})
	}
}

// TestARevertWaitsForNoImages: nodes return to the earlier config, even if a registry is away.
func TestARevertWaitsForNoImages(t *testing.T) {
	n := poolstate.Node{Name: "n1", State: v1alpha1.StateDone}
	n.Config.Current, n.Config.Desired = version("v1"), version("v1")
	n.Images, n.Pins = "d2", true
	f := poolstate.Facts{
		Pool: "worker", Target: version("v1"), MaxUnavailable: 1, Care: poolstate.Care{Healthy: version("v0")},
		Nodes: []poolstate.Node{n},
	}
	f.Care.Record = v1alpha1.RolloutRecord{
		Config: "v1", Healthy: "v0",
		RolloutEnd: v1alpha1.RolloutEnd{Verdict: v1alpha1.RolloutReverted, Back: "v0"},
	}
	if w := rollout.Next(f, noon); len(w.Assign) != 1 || w.Assign[0].Config != version("v0") {
		t.Errorf("it assigns %v, and is blocked by %v", w.Assign, w.Blocks)
	}
}
