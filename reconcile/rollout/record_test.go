package rollout_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// TestRanBefore: a record says whether any node had to be assigned its config.
func TestRanBefore(t *testing.T) {
	runs := func(name, config string) rollout.Node {
		return rollout.Node{Name: name, Config: rollout.Configs{Current: config, Desired: config}, State: v1alpha1.StateDone}
	}
	for sentence, c := range map[string]struct {
		nodes []rollout.Node
		want  bool
	}{
		"all nodes run the config when the pool is created again": {[]rollout.Node{runs("n0", "v1"), runs("n1", "v1")}, true},
		"a node runs another config":                              {[]rollout.Node{runs("n0", "v1"), runs("n1", "v0")}, false},
		"the pool has no nodes":                                   {nil, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := rollout.Next(rollout.Facts{Pool: "worker", Target: "v1", MaxUnavailable: 1, Nodes: c.nodes}, noon)
			if w.Record.RanBefore != c.want {
				t.Errorf("RanBefore is %t, want %t", w.Record.RanBefore, c.want)
			}
		})
	}
}
