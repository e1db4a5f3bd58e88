package vectors_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"

	"github.com/bunsen-os/bunsen/reconcile/status"
)

// nodeVectors are answers of the original's node controller.
type nodeVectors struct {
	MaxUnavailable []struct {
		MaxUnavailable *intstr.IntOrString
		Nodes, Result  int
		Error          string
	}
	Pool     []poolCase
	Arbiters []struct {
		Case string
		// Masters and Arbiter are nodes as words: current and desired config, state, and what ails the node.
		Masters []string
		Arbiter string
		// Updated is true if the arbiter gets the config v1 now.
		Updated bool
	}
	PoolsForNode []struct {
		OS           string
		Roles, Pools []string
		Error        string
	}
}

// poolCase is a pool, and what the original made of it.
type poolCase struct {
	Case, Target            string
	Paused                  bool
	MaxUnavailable          int
	Nodes                   []corev1.Node
	Candidates, Unavailable []string
	Capacity                int
	Status                  poolStatus
}

type poolStatus struct {
	MachineCount, Updated, Ready, Unavailable, Degraded int32
	Configuration                                       string
	Conditions                                          map[string]string // type: status|reason|message
}

func TestMaxUnavailableAgreesWithTheOriginal(t *testing.T) {
	for _, c := range load[nodeVectors](t, "node.json").MaxUnavailable {
		got, err := poolstate.MaxUnavailable("worker", c.MaxUnavailable, c.Nodes)
		if got != c.Result || (err != nil) != (c.Error != "") {
			t.Errorf("%v of %d nodes: %d, %v; the original has %d, %q", c.MaxUnavailable, c.Nodes, got, err, c.Result,
				c.Error)
		}
	}
}

func TestPoolsOfANodeAgreeWithTheOriginal(t *testing.T) {
	role := func(name string) string { return "node-role.kubernetes.io/" + name }
	var all []*mcfgv1.MachineConfigPool
	for _, name := range []string{"master", "worker", "infra", "gpu", "arbiter"} {
		p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{role(name): ""}}
		all = append(all, p)
	}
	pools := membership.New(all)
	for _, c := range load[nodeVectors](t, "node.json").PoolsForNode {
		n := poolstate.Node{Name: "n", Labels: map[string]string{corev1.LabelOSStable: c.OS}}
		for _, r := range c.Roles {
			n.Labels[role(r)] = ""
		}
		primary, got, err := pools.For(n.Name, n.Labels)
		if !slices.Equal(got, c.Pools) || (err != nil) != (c.Error != "") {
			t.Errorf("%s node with roles %v: %v, %v; the original has %v, %q", c.OS, c.Roles, got, err, c.Pools,
				c.Error)
		}
		if len(got) > 0 && primary != got[0] {
			t.Errorf("node with roles %v: primary %q is not the first of %v", c.Roles, primary, got)
		}
	}
}

// candidateExceptions are the pools in which other nodes may be told.
var candidateExceptions = exceptions{
	"degraded on other config notready": "the original never tells a failed node anything again once it is not " +
		"Ready; ours is told the fix, which takes no node out of service that is in service",
	"old notready only node": "the original never tells a node anything while it is not Ready, so one that died with " +
		"a bad config never hears of the fix; ours is told it once it is away for ten minutes, with the place " +
		"that it has",
	"degraded cur==des==old": "in the original a node that has drifted takes the place in which it would be told the " +
		"commit that mends it; ours is told it with the place that it has",
}

// findCandidates are the nodes that may be assigned the target, and for how many of those that are in service there is
// room. Nodes that take no new place come first.
func findCandidates(f poolstate.Facts) (names []string, capacity int) {
	capacity = max(0, f.MaxUnavailable-poolstate.Count(f).Places)
	f.Paused, f.MaxUnavailable = false, 1000
	assigned := func(shared ...poolstate.Shared) (names []string) {
		f.Care.Around.Together = shared
		for _, a := range rollout.Next(f, time.Time{}).Assign {
			names = append(names, a.Node)
		}
		slices.Sort(names)
		return names
	}
	free := assigned(poolstate.Shared{Max: 0})
	if capacity == 0 {
		return free, 0
	}
	return append(free, slices.DeleteFunc(assigned(), func(name string) bool {
		return slices.Contains(free, name)
	})...), capacity
}

func TestCandidatesAgreeWithTheOriginal(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range load[nodeVectors](t, "node.json").Pool {
		t.Run(c.Case, func(t *testing.T) {
			f := c.facts()
			candidates, capacity := findCandidates(f)
			if diff := cmp.Diff(c.Candidates, candidates, cmpopts.EquateEmpty()); diff != "" {
				candidateExceptions.differs(t, c.Case, seen, "candidates (-original +ours):\n%s", diff)
			}
			if capacity != c.Capacity {
				candidateExceptions.differs(t, c.Case, seen, "capacity %d, the original has %d", capacity, c.Capacity)
			}
			var unavailable []string
			for _, n := range f.Nodes {
				if n.Unavailable() {
					unavailable = append(unavailable, n.Name)
				}
			}
			if diff := cmp.Diff(c.Unavailable, unavailable, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("unavailable nodes (-original +ours):\n%s", diff)
			}
		})
	}
	candidateExceptions.settle(t, seen)
}

const namesNodes = "the original counts and quotes degraded nodes from MachineConfigNode objects and says 0 where " +
	"there are none; ours reads the nodes' own annotations"

const countsNodes = "the original says that all nodes are updating also where some are done or failed; ours adds " +
	"how many"

// conditionExceptions are the pools whose conditions have other texts.
var conditionExceptions = exceptions{
	"updated but unknown":                 countsNodes,
	"net unavailable":                     countsNodes,
	"degraded this config max2":           namesNodes,
	"degraded on other config (retarget)": namesNodes,
	"degraded on other config notready":   namesNodes,
	"degraded cur==des==old":              namesNodes,
	"two degraded this max3":              namesNodes,
}

func TestPoolStatusAgreesWithTheOriginal(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range load[nodeVectors](t, "node.json").Pool {
		t.Run(c.Case, func(t *testing.T) {
			named := func(name string) (out mcfgv1.MachineConfigPoolStatusConfiguration) {
				out.Name = name
				return out
			}
			facts := status.PoolFacts{Configuration: named(c.Target), Rollout: c.facts()}
			s := status.Pool(mcfgv1.MachineConfigPoolStatus{Configuration: named("v0")}, facts, time.Unix(0, 0))
			got := poolStatus{
				MachineCount: s.MachineCount, Updated: s.UpdatedMachineCount, Ready: s.ReadyMachineCount,
				Unavailable: s.UnavailableMachineCount, Degraded: s.DegradedMachineCount,
				Configuration: s.Configuration.Name,
			}
			if diff := cmp.Diff(c.Status, got, cmpopts.IgnoreFields(poolStatus{}, "Conditions")); diff != "" {
				t.Errorf("counts (-original +ours):\n%s", diff)
			}
			texts, statuses := map[string]string{}, map[string]string{}
			for _, x := range s.Conditions {
				if x.Type == v1alpha1.RolloutBlockedCondition {
					continue // the original has no such condition
				}
				texts[string(x.Type)] = string(x.Status) + "|" + x.Reason + "|" + x.Message
				statuses[string(x.Type)] = string(x.Status)
			}
			if diff := cmp.Diff(c.Status.Conditions, texts); diff != "" {
				conditionExceptions.differs(t, c.Case, seen, "conditions (-original +ours):\n%s", diff)
			}
			for kind, text := range c.Status.Conditions { // an exception is about words only
				if want := text[:len(statuses[kind])]; want != statuses[kind] {
					t.Errorf("condition %s is %s, the original has %s", kind, statuses[kind], text)
				}
			}
		})
	}
	conditionExceptions.settle(t, seen)
}

// facts reads the case as the controller reads a pool.
func (c poolCase) facts() poolstate.Facts {
	f := poolstate.Facts{Pool: "worker", Target: version(c.Target), Paused: c.Paused, MaxUnavailable: c.MaxUnavailable}
	for i := range c.Nodes {
		f.Nodes = append(f.Nodes, poolstate.ReadNode(&c.Nodes[i]))
	}
	return f
}

// TestTheArbiterAgreesWithTheOriginal: who of the masters makes the arbiter wait.
func TestTheArbiterAgreesWithTheOriginal(t *testing.T) {
	exceptions := map[string]string{
		"the masters are paused, and all are available": "the arbiter waits until the masters run the same commit",
		"a master failed, and is available":             "the arbiter waits until the masters run the same commit",
	}
	node := func(name, words string) poolstate.Node {
		w := strings.Fields(words)
		n := poolstate.Node{Name: name, State: w[2]}
		n.Config.Current, n.Config.Desired = version(w[0]), version(w[1])
		for _, ail := range w[3:] {
			switch ail {
			case "NotReady":
				n.Health = poolstate.Health{Trouble: "not Ready", NotReady: true}
			case "DiskPressure":
				n.Health = poolstate.Health{Trouble: "short of disk space"}
			case "Cordoned":
				n.Cordon.Unschedulable = true
			}
		}
		return n
	}
	for _, c := range load[nodeVectors](t, "node.json").Arbiters {
		var masters poolstate.Counts
		done := true
		for i, words := range c.Masters {
			n := node(fmt.Sprintf("master-%d", i), words)
			masters = masters.With(&n, version("v1"), 0)
			done = done && n.Config.Current == version("v1")
		}
		arbiter := node("arbiter", c.Arbiter)
		f := poolstate.Facts{
			Pool: poolstate.ArbiterPool, Target: version("v1"), MaxUnavailable: 1, Nodes: []poolstate.Node{arbiter},
		}
		f.Care.Around.Ahead = []poolstate.Ahead{{Pool: membership.Master, Done: done, Why: "not all run v1"}}
		f.Care.Around.Quorum = poolstate.NewQuorum(f.Pool, masters, poolstate.Counts{}.With(&arbiter, version("v1"), 0))
		want := c.Updated && exceptions[c.Case] == ""
		if got := len(rollout.Next(f, time.Now()).Assign) == 1; got != want {
			t.Errorf("%s: the arbiter is updated: %v, want %v", c.Case, got, want)
		}
	}
}

// version reads a config in the form of v1alpha1.ConfigVersion.String.
func version(text string) v1alpha1.ConfigVersion { return v1alpha1.ParseConfigVersion(text) }
