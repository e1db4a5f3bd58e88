package rollout_test

import (
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// TestUpdatedBefore: a record says how many nodes did not have to be assigned its config.
func TestUpdatedBefore(t *testing.T) {
	runs := func(name, config string) poolstate.Node {
		return poolstate.Node{
			Name: name, Config: poolstate.Configs{Current: version(config), Desired: version(config)},
			State: v1alpha1.StateDone,
		}
	}
	failed := poolstate.Node{
		Name: "n1", Config: poolstate.Configs{Current: version("v1"), Desired: version("v2")},
		State: v1alpha1.StateDegraded,
	}
	for sentence, c := range map[string]struct {
		nodes []poolstate.Node
		want  int
	}{
		"all nodes run the config when the pool is created again": {[]poolstate.Node{runs("n0", "v1"), runs("n1", "v1")}, 2},
		"a node runs another config":                              {[]poolstate.Node{runs("n0", "v1"), runs("n1", "v0")}, 1},
		"a node failed another config":                            {[]poolstate.Node{runs("n0", "v1"), failed}, 2},
		"the pool has no nodes":                                   {nil, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := rollout.Next(poolstate.Facts{
				Pool: "worker", Target: version("v1"), MaxUnavailable: 1,
				Nodes: c.nodes,
			}, noon)
			if w.Record.UpdatedBefore != c.want {
				t.Errorf("%d nodes ran it before, want %d", w.Record.UpdatedBefore, c.want)
			}
		})
	}
}

// TestAPoolWithoutNodesBeginsWithTheFirst: a rollout takes no longer than its nodes need.
func TestAPoolWithoutNodesBeginsWithTheFirst(t *testing.T) {
	facts := poolstate.Facts{Pool: "infra", Target: version("v1"), MaxUnavailable: 1}
	step := func(at time.Time) v1alpha1.RolloutRecord {
		facts.Care.Record = rollout.Next(facts, at).Record
		return facts.Care.Record
	}
	step(noon)
	if r := step(noon.Add(time.Hour)); !r.Began.Time.Equal(noon) || !r.Empty {
		t.Errorf("without a node, the record changes: %+v", r)
	}
	facts.Nodes = []poolstate.Node{
		{Name: "n0", Config: poolstate.Configs{Current: version("v0"), Desired: version("v0")}, State: v1alpha1.StateDone},
	}
	first := noon.Add(2 * time.Hour)
	if r := step(first); !r.Began.Time.Equal(first) || r.Empty {
		t.Errorf("the first node came at %s, and the record says %+v", first, r)
	}
	facts.Nodes = append(facts.Nodes, facts.Nodes[0])
	facts.Nodes[1].Name = "n1"
	if r := step(first.Add(time.Minute)); !r.Began.Time.Equal(first) {
		t.Errorf("the second node begins the rollout again: %+v", r)
	}
}
