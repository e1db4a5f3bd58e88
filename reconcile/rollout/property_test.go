package rollout_test

import (
	"fmt"
	"math"
	"math/rand"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// rounds is how many random pools each property is tried on.
const rounds = 5000

// randomFacts makes a pool of up to 12 nodes in any state that annotations can express, sensible or not.
func randomFacts(r *rand.Rand) poolstate.Facts {
	configs := []string{"", "v0", "v1", "vbad"}
	states := []string{
		"", v1alpha1.StateDone, v1alpha1.StateDone, v1alpha1.StateWorking, v1alpha1.StateDegraded,
		v1alpha1.StateUnreconcilable,
	}
	pick := func(words []string) string { return words[r.Intn(len(words))] }
	f := poolstate.Facts{Pool: "worker", Target: version("v1"), Paused: r.Intn(8) == 0, MaxUnavailable: r.Intn(6) - 1}
	for i := range r.Intn(13) {
		n := poolstate.Node{Name: fmt.Sprintf("n%02d", i), State: pick(states), Zone: pick([]string{"", "a", "b"})}
		n.Created = noon.Add(-time.Duration(r.Intn(4)) * time.Hour)
		n.Config = poolstate.Configs{Current: version(pick(configs)), Desired: version(pick(configs))}
		if r.Intn(10) == 0 {
			n.Config.CurrentImage, n.Config.DesiredImage = pick([]string{"", "i"}), pick([]string{"", "i"})
		}
		if r.Intn(4) == 0 {
			n.Health.Trouble = "not Ready"
		}
		if r.Intn(4) == 0 {
			n.Cordon = poolstate.Cordon{Unschedulable: true, For: pick([]string{"", "vbad"})}
		}
		n.Step.Draining, n.Tainted = r.Intn(5) == 0, r.Intn(2) == 0
		f.Nodes = append(f.Nodes, n)
	}
	if r.Intn(50) == 0 { // what an absurd percentage comes to
		f.MaxUnavailable = []int{math.MinInt, math.MaxInt}[r.Intn(2)]
	}
	if len(f.Nodes) > 0 && r.Intn(2) == 0 {
		f.Host = f.Nodes[r.Intn(len(f.Nodes))].Name
	}
	return f
}

// try runs a property on many pools; the seed is fixed, so a failure comes back.
func try(t *testing.T, property func(*testing.T, *rand.Rand, poolstate.Facts, poolstate.Decision)) {
	t.Helper()
	for seed := range int64(rounds) {
		r := rand.New(rand.NewSource(seed))
		f := randomFacts(r)
		property(t, r, f, rollout.Next(f, noon))
		if t.Failed() {
			t.Fatalf("seed %d, pool %+v", seed, f)
		}
	}
}

func byNames(f poolstate.Facts) map[string]poolstate.Node {
	m := map[string]poolstate.Node{}
	for _, n := range f.Nodes {
		m[n.Name] = n
	}
	return m
}

// TestADecisionIsNeverOverBudget: a decision takes nobody out of service that the budget has no room for, and never
// sets more nodes to work at a time than the budget names.
func TestADecisionIsNeverOverBudget(t *testing.T) {
	try(t, func(t *testing.T, _ *rand.Rand, f poolstate.Facts, w poolstate.Decision) {
		nodes := byNames(f)
		out, atWork := poolstate.Count(f).Unavailable, 0
		for _, n := range f.Nodes {
			if n.Config.Current != n.Config.Desired && !n.Failing() {
				atWork++
			}
		}
		before, beforeWork := out, atWork
		for _, a := range w.Assign {
			n := nodes[a.Node]
			if n.Config.Current == a.Config && (n.Config.DesiredImage == "" || n.Config.StrayImage()) {
				continue // it runs that already: nothing happens there
			}
			if !n.Unavailable() {
				out++
			}
			if n.Config.Current == n.Config.Desired || n.Failing() {
				atWork++
			}
		}
		if out > max(before, f.MaxUnavailable) {
			t.Errorf("%d unavailable before, %d after, budget %d", before, out, f.MaxUnavailable)
		}
		if atWork > max(beforeWork, f.MaxUnavailable) {
			t.Errorf("%d at work before, %d after, budget %d", beforeWork, atWork, f.MaxUnavailable)
		}
	})
}

// TestADecisionAccountsForEveryNode: each node is told, waits for a stated reason, or is done; none twice.
func TestADecisionAccountsForEveryNode(t *testing.T) {
	try(t, func(t *testing.T, _ *rand.Rand, f poolstate.Facts, w poolstate.Decision) {
		seen := map[string]int{}
		for _, a := range w.Assign {
			seen[a.Node]++
		}
		for _, x := range rollout.Explain(f, w, noon) {
			seen[x.Node]++
			if x.Cause == "" || x.Reason == "" {
				t.Errorf("node %s waits without a reason", x.Node)
			}
		}
		for _, n := range f.Nodes {
			want := 1
			if n.UpdatedTo(f.Target) {
				want = 0
			}
			if seen[n.Name] != want {
				t.Errorf("node %s appears %d times, want %d", n.Name, seen[n.Name], want)
			}
		}
	})
}

// TestADecisionRespectsPeople: nothing is told to a node that an administrator cordoned, nor to any in a paused pool.
func TestADecisionRespectsPeople(t *testing.T) {
	try(t, func(t *testing.T, _ *rand.Rand, f poolstate.Facts, w poolstate.Decision) {
		nodes := byNames(f)
		for _, a := range w.Assign {
			if f.Paused || f.MaxUnavailable < 1 {
				t.Errorf("node %s is told something in a pool that stands still", a.Node)
			}
			if n := nodes[a.Node]; n.Cordon.ByAdministrator() {
				t.Errorf("node %s is told something while an administrator has it cordoned", a.Node)
			}
		}
	})
}

// TestTheOrderOfNodesDoesNotMatter: a decision is a function of the set of nodes.
func TestTheOrderOfNodesDoesNotMatter(t *testing.T) {
	try(t, func(t *testing.T, r *rand.Rand, f poolstate.Facts, w poolstate.Decision) {
		r.Shuffle(len(f.Nodes), func(i, j int) { f.Nodes[i], f.Nodes[j] = f.Nodes[j], f.Nodes[i] })
		if diff := gocmp.Diff(w, rollout.Next(f, noon)); diff != "" {
			t.Errorf("another order gives another decision (-first +second):\n%s", diff)
		}
	})
}

// TestTimeChangesWordsOnly: when it is decides nothing without a policy, but for nodes that are away for a
// moment; it only names durations.
func TestTimeChangesWordsOnly(t *testing.T) {
	try(t, func(t *testing.T, _ *rand.Rand, f poolstate.Facts, w poolstate.Decision) {
		later := rollout.Next(f, noon.Add(100*time.Hour))
		if diff := gocmp.Diff(w.Assign, later.Assign); diff != "" {
			t.Errorf("the time changes a decision:\n%s", diff)
		}
	})
}

// TestAConvergedPoolGetsAnEmptyDecision: nothing is told, waited for, tainted or looked at again.
func TestAConvergedPoolGetsAnEmptyDecision(t *testing.T) {
	try(t, func(t *testing.T, _ *rand.Rand, f poolstate.Facts, _ poolstate.Decision) {
		for i, n := range f.Nodes {
			f.Nodes[i] = poolstate.Node{
				Name: n.Name, State: v1alpha1.StateDone,
				Config: poolstate.Configs{Current: f.Target, Desired: f.Target},
			}
		}
		if !poolstate.Count(f).Converged() {
			t.Error("not converged")
		}
		got := rollout.Next(f, noon)
		if noted := got.Record.Ended != nil && version(got.Record.Healthy) == f.Target; noted != (len(f.Nodes) > 0) {
			t.Errorf("the end of the rollout to %d nodes is noted: %v", len(f.Nodes), noted)
		}
		if recorded := len(got.Ended) > 0; recorded != (len(f.Nodes) > 0) {
			t.Errorf("the outcome of the rollout to %d nodes is recorded: %v", len(f.Nodes), recorded)
		}
		got.Record, got.Ended, got.Target, got.Counts, got.Stage = v1alpha1.RolloutRecord{}, nil, version(""),
			poolstate.Counts{}, poolstate.Stage{}
		if f.Paused || f.MaxUnavailable < 1 {
			got.Blocks = nil
		}
		if diff := gocmp.Diff(poolstate.Decision{}, got); diff != "" {
			t.Errorf("want an empty decision (+got):\n%s", diff)
		}
	})
}

// TestABadConfigAndItsFix plays whole stories: a pool takes a config that fails on some nodes, then a good one. Every
// node must end on the good one, never with more nodes out of service than the budget has, whatever the failed ones
// look like.
func TestABadConfigAndItsFix(t *testing.T) {
	for seed := range int64(500) {
		r := rand.New(rand.NewSource(seed))
		f := poolstate.Facts{Pool: "worker", Target: version("vbad"), MaxUnavailable: 1 + r.Intn(3)}
		for i := range 1 + r.Intn(9) {
			f.Nodes = append(f.Nodes, poolstate.Node{
				Name: fmt.Sprintf("n%d", i), State: v1alpha1.StateDone,
				Config: poolstate.Configs{Current: version("v0"), Desired: version("v0")},
			})
		}
		play := func(steps int) {
			for range steps {
				for _, a := range rollout.Next(f, noon).Assign {
					for i := range f.Nodes {
						if f.Nodes[i].Name == a.Node {
							f.Nodes[i].Config.Desired = a.Config
						}
					}
				}
				if out := poolstate.Count(f).Unavailable; out > f.MaxUnavailable {
					t.Fatalf("seed %d: %d nodes out of service with a budget of %d: %+v", seed, out, f.MaxUnavailable,
						f.Nodes)
				}
				advance(r, &f.Nodes[r.Intn(len(f.Nodes))])
			}
		}
		play(60)
		f.Target = version("v1")
		play(2000)
		if !poolstate.Count(f).Converged() {
			t.Fatalf("seed %d: the fix did not reach every node: %+v", seed, f.Nodes)
		}
	}
}

// advance lets a node's daemon, drain and kubelet do one step.
func advance(r *rand.Rand, n *poolstate.Node) {
	c := &n.Config
	switch {
	case c.Current == c.Desired:
		*n = poolstate.Node{Name: n.Name, State: v1alpha1.StateDone, Config: *c}
	case n.State != v1alpha1.StateWorking:
		n.State = v1alpha1.StateWorking
	case c.Desired != version("vbad"):
		c.Current = c.Desired
	default: // fails before the drain, after it, or with a kubelet that is gone
		n.State = v1alpha1.StateDegraded
		switch r.Intn(3) {
		case 1:
			n.Cordon = poolstate.Cordon{Unschedulable: true, For: c.Desired.String()}
		case 2:
			n.Health.Trouble = "not Ready"
		}
	}
}
