package rollout_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"

	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// random picks from tables of what is sensible and what is not.
type random struct{ *rand.Rand }

func (r random) one(in int) bool           { return r.Intn(in) == 0 }
func (r random) of(words ...string) string { return words[r.Intn(len(words))] }

// time is around noon, before or after it, in fractions of a second as often as not.
func (r random) time() time.Time {
	return noon.Add(time.Duration(r.Intn(8000)-5000) * 1500 * time.Millisecond)
}

// carefulFacts is a random pool under a random policy, with a random record, among random other pools.
func carefulFacts(r random) poolstate.Facts {
	f := randomFacts(r.Rand)
	c := &f.Care
	c.Pace, c.Record = r.pace(), r.record()
	c.Healthy = version(r.of("", "v0", "v0", "v0", "v1"))
	if c.Record.Config != "" {
		c.Record.Healthy = c.Healthy.String()
	}
	c.RetryAt, c.OpenUntil = time.Time{}, time.Time{}
	if r.one(4) {
		c.RetryAt = r.time()
	}
	if r.one(8) {
		c.OpenUntil = r.time()
	}
	if r.one(30) {
		c.Invalid = "unreadable"
	}
	if r.one(6) {
		c.Around.Ahead = []poolstate.Ahead{{Pool: "master", Done: r.one(2), Why: "2 of 3"}}
	}
	for range r.Intn(3) {
		c.Around.Together = append(c.Around.Together, poolstate.Shared{Policy: "all", Max: r.Intn(6), Used: r.Intn(5)})
	}
	if r.one(20) {
		c.Around.Quorum = "the arbiter is away"
	}
	for _, g := range c.Pace.Gates {
		if g.Ready == nil && !r.one(4) {
			c.Gates = append(c.Gates, poolstate.Gate{Name: g.Name, Verdict: []poolstate.GateVerdict{
				poolstate.GateOpen,
				poolstate.GateOpen, poolstate.GateWaits, poolstate.GateFailed,
			}[r.Intn(4)], Why: "so"})
		}
	}
	c.Fetches = r.one(3)
	for i := range f.Nodes {
		r.dress(&f.Nodes[i])
		r.download(&f.Nodes[i])
	}
	return f
}

// download gives a node what it says about the files of a config.
func (r random) download(n *poolstate.Node) {
	if r.one(3) {
		return
	}
	n.Ahead = !r.one(6)
	if r.one(2) {
		n.Next = v1alpha1.NextConfig{Config: r.of("v1", "v1", "v0", "vbad"), Since: r.time()}
	}
	if r.one(2) {
		n.Fetched = v1alpha1.FetchReport{
			Config:  r.of("v1", "v1", "v0"),
			Problem: r.of("", "downloading https://x.example/f: the server answers 404"),
		}
	}
}

// dress gives a node what only a policy looks at.
func (r random) dress(n *poolstate.Node) {
	if r.one(3) {
		n.Labels = map[string]string{"canary": ""}
	}
	if r.one(6) {
		n.Gate = "its DaemonSet is not ready"
	}
	if r.one(2) {
		n.Health.ReadySince = r.time()
	}
	if n.Health.Trouble != "" && r.one(2) {
		n.Health.Since = r.time()
	}
	if n.Step.Draining {
		n.Step.DrainStarted = r.time()
	}
	if r.one(5) {
		n.Postponed = poolstate.Postponed{For: version(r.of("v1", "v0")), At: r.time()}
	}
	if n.Degraded() {
		n.Reason = r.of("", "no space", "updating to rendered-worker-bad: no space")
	}
}

func (r random) pace() schedule.Pace {
	p := schedule.Pace{Policies: []string{"careful"}, Failures: schedule.Failures{
		After:  1 + r.Intn(3),
		Action: v1alpha1.FailureHalt,
	}}
	if r.one(2) {
		p.Failures.Action = v1alpha1.FailureRevert
	}
	if r.one(2) {
		p.Failures.NodeDeadline = time.Hour
	}
	if r.one(3) {
		p.MaxUnavailable = new(intstr.Parse(r.of("1", "2", "30%", "0", "200%")))
	}
	if r.one(3) {
		p.PerZone = new(intstr.Parse(r.of("1", "2", "50%")))
	}
	if r.one(3) {
		p.Steps = append(p.Steps, schedule.Step{
			Canary: true, Selector: labels.SelectorFromSet(labels.Set{"canary": ""}),
			Soak: 10 * time.Minute,
		})
	}
	for range r.Intn(3) {
		p.Steps = append(p.Steps, schedule.Step{
			UpTo: intstr.Parse(r.of("1", "3", "30%", "100%")),
			Soak: time.Duration(r.Intn(2)) * 10 * time.Minute,
		})
	}
	for i := range r.Intn(4) {
		p.Gates = append(p.Gates, []v1alpha1.HealthGate{
			{Name: fmt.Sprint(i), Job: &v1alpha1.JobGate{}},
			{Name: fmt.Sprint(i), Prometheus: &v1alpha1.PrometheusGate{}},
			{Name: fmt.Sprint(i), Ready: &v1alpha1.ReadyGate{For: metav1.Duration{Duration: 20 * time.Minute}}},
		}[r.Intn(3)])
	}
	if r.one(4) {
		p.Windows, _ = schedule.ParseWindow([]schedule.Window{{
			Schedule: r.of("0 22 * * *", "30 11 * * *"),
			Duration: time.Hour,
		}})
	}
	if r.one(3) {
		p.Drain = schedule.Drain{WhenBlocked: v1alpha1.DrainMoveOn, After: time.Hour}
	}
	return p
}

func (r random) record() v1alpha1.RolloutRecord {
	if r.one(4) {
		return v1alpha1.RolloutRecord{}
	}
	at := func() *metav1.Time { return new(metav1.NewTime(r.time().Truncate(time.Second))) }
	rec := v1alpha1.RolloutRecord{Config: r.of("v1", "v1", "v1", "v0"), Began: *at(), Steps: r.Intn(4)}
	switch r.Intn(6) {
	case 0:
		rec.Verdict, rec.Why, rec.At = v1alpha1.RolloutHalted, "so", at()
	case 1:
		rec.Verdict, rec.Why, rec.At, rec.Back = v1alpha1.RolloutReverted, "so", at(), "v0"
	case 2:
		rec.Ended = at()
	case 3:
		rec.WellSince = at()
	}
	for i := range r.Intn(3) {
		rec.Forgiven = append(rec.Forgiven, fmt.Sprintf("n%02d", 3*i))
		if r.one(2) {
			rec.Forgiven = append(rec.Forgiven, fmt.Sprintf("n%02d/again", 3*i))
		}
	}
	return rec
}

// tryCareful runs a property on many pools under policies.
func tryCareful(t *testing.T, property func(*testing.T, random, poolstate.Facts, poolstate.Decision)) {
	t.Helper()
	for seed := range int64(rounds) {
		r := random{rand.New(rand.NewSource(seed))}
		f := carefulFacts(r)
		property(t, r, f, rollout.Next(f, noon))
		if t.Failed() {
			t.Fatalf("seed %d, pool %+v", seed, f)
		}
	}
}

// disturbs tells that an order takes a node out of service that is in service.
func disturbs(n poolstate.Node, a poolstate.Assignment) bool {
	runs := n.Config.Current == a.Config && (n.Config.DesiredImage == "" || n.Config.StrayImage())
	return !runs && !n.Unavailable()
}

// TestNoBudgetIsEverOverdrawn: what a decision adds to what is out of service fits into every budget that the pool is
// in.
func TestNoBudgetIsEverOverdrawn(t *testing.T) {
	tryCareful(t, func(t *testing.T, _ random, f poolstate.Facts, w poolstate.Decision) {
		nodes, adds := byNames(f), 0
		zones, sizes, out := map[string]int{}, map[string]int{}, map[string]int{}
		for _, n := range f.Nodes {
			sizes[n.Zone]++
			if n.Unavailable() {
				out[n.Zone]++
			}
		}
		for _, a := range w.Assign {
			if n := nodes[a.Node]; disturbs(n, a) {
				adds++
				zones[n.Zone]++
			}
		}
		if adds == 0 {
			return
		}
		most := f.MaxUnavailable
		if own := f.Care.Pace.MaxUnavailable; own != nil {
			most, _ = poolstate.MaxUnavailable(f.Pool, own, len(f.Nodes))
		}
		before := w.Counts.Unavailable
		if before+adds > most {
			t.Errorf("%d of %d places are used, and %d more are told", before, most, adds)
		}
		for _, s := range f.Care.Around.Together {
			if before+adds+s.Used > s.Max {
				t.Errorf("%d+%d of %d shared places are used, and %d more are told", before, s.Used, s.Max, adds)
			}
		}
		for zone, n := range zones {
			if f.Care.Pace.PerZone == nil {
				break
			}
			if most, _ := poolstate.MaxUnavailable(f.Pool, f.Care.Pace.PerZone, sizes[zone]); out[zone]+n > most {
				t.Errorf("%d of %d places of zone %q are used, and %d more are told", out[zone], most, zone, n)
			}
		}
	})
}

// TestAStepIsNeverOverrun: a step lets no more be told than it is for, those apart that failed another config, are
// lost, or run the target already.
func TestAStepIsNeverOverrun(t *testing.T) {
	tryCareful(t, func(t *testing.T, _ random, f poolstate.Facts, w poolstate.Decision) {
		if w.Stage.Step == w.Stage.Of || w.Target != f.Target {
			return
		}
		nodes, told := byNames(f), w.Stage.Assigned
		step := f.Care.Pace.Steps[w.Stage.Step]
		for _, a := range w.Assign {
			n := nodes[a.Node]
			if n.Failing() || n.Config.Current == a.Config || n.Health.Trouble != "" {
				told++
				continue
			}
			if _, canary := n.Labels["canary"]; step.Selector != nil && !canary {
				t.Errorf("node %s is told in the step of the canaries", n.Name)
			}
			if told++; step.Selector == nil && told > w.Stage.Want {
				t.Errorf("node %s is the %dth to be told in a step for %d", n.Name, told, w.Stage.Want)
			}
		}
	})
}

// TestWhoIsHeldIsNotDisturbed: a paused, halted or unreadable pool tells nobody; a closed window or a pool that comes
// first keeps all those as they are who are in service.
func TestWhoIsHeldIsNotDisturbed(t *testing.T) {
	tryCareful(t, func(t *testing.T, _ random, f poolstate.Facts, w poolstate.Decision) {
		for _, b := range w.Blocks {
			switch b.Cause {
			case poolstate.CausePaused, poolstate.CauseHalted, poolstate.CauseInvalid:
				if len(w.Assign)+len(w.Release) > 0 {
					t.Errorf("%v, and yet %v are told, %v are released", b, w.Assign, w.Release)
				}
			case poolstate.CauseWindow, poolstate.CauseAfterPool:
				for _, a := range w.Assign {
					if n := byNames(f)[a.Node]; disturbs(n, a) {
						t.Errorf("%v, and yet node %s is told", b, n.Name)
					}
				}
			}
		}
	})
}

// TestADecisionMadeTwiceIsTheSame: whoever stored the record and crashed before he told the nodes, comes to the same
// orders from the record that he finds; and the record is then as it was. A step that ended by it may be followed by
// the next one.
func TestADecisionMadeTwiceIsTheSame(t *testing.T) {
	tryCareful(t, func(t *testing.T, _ random, f poolstate.Facts, w poolstate.Decision) {
		stored, err := v1alpha1.ParseRolloutRecord(w.Record.String())
		if err != nil {
			t.Fatal(err)
		}
		if stored.String() != w.Record.String() {
			t.Errorf("the record %s is read as %s", w.Record, stored)
		}
		advanced := w.Record.Steps != f.Care.Record.Steps && version(f.Care.Record.Config) == f.Target
		f.Care.Record = stored
		again := rollout.Next(f, noon)
		if advanced || w.Stage.Step != again.Stage.Step {
			return
		}
		if again.Record.String() != w.Record.String() {
			t.Errorf("the record changes again, from %s to %s", w.Record, again.Record)
		}
		if diff := gocmp.Diff(w.Assign, again.Assign); diff != "" {
			t.Errorf("other orders (-first +second):\n%s", diff)
		}
		if diff := gocmp.Diff(w.Release, again.Release); diff != "" {
			t.Errorf("other releases (-first +second):\n%s", diff)
		}
	})
}

// TestNoClockUndoesAVerdict: whatever time it is, a verdict stands until somebody asks to retry or all nodes run the
// config.
func TestNoClockUndoesAVerdict(t *testing.T) {
	tryCareful(t, func(t *testing.T, r random, f poolstate.Facts, _ poolstate.Decision) {
		was := f.Care.Record
		if was.Verdict == "" || version(was.Config) != f.Target {
			return
		}
		w := rollout.Next(f, r.time())
		if w.Record.Verdict == was.Verdict || w.Counts.Updated == len(f.Nodes) || f.Care.RetryAt.After(was.At.Time) {
			return
		}
		t.Errorf("the verdict %s is %q", was, w.Record.Verdict)
	})
}

// TestAPoolThatStandsStillSaysWhy: where nodes are left, and nobody is told anything, and nobody is on the way, there
// is a block.
func TestAPoolThatStandsStillSaysWhy(t *testing.T) {
	tryCareful(t, func(t *testing.T, _ random, f poolstate.Facts, w poolstate.Decision) {
		if len(w.Blocks) > 0 || len(w.Assign)+len(w.Release)+len(w.Announce) > 0 || w.RequeueAfter > 0 &&
			w.RequeueAfter <= time.Second {
			return
		}
		for _, n := range f.Nodes {
			if n.Config.Current != n.Config.Desired && !n.Failing() || n.Ahead &&
				n.Of("v1", noon) == poolstate.Downloading {
				return
			}
		}
		for _, n := range f.Nodes {
			if !n.UpdatedTo(w.Target) {
				t.Errorf("node %s waits, and no block says why", n.Name)
			}
		}
	})
}

// TestAPolicyKeepsTheOldProperties: order, accounts and words hold under a policy, too.
func TestAPolicyKeepsTheOldProperties(t *testing.T) {
	tryCareful(t, func(t *testing.T, r random, f poolstate.Facts, w poolstate.Decision) {
		seen := map[string]int{}
		for _, a := range w.Assign {
			seen[a.Node]++
			if n := byNames(f)[a.Node]; n.Cordon.ByAdministrator() {
				t.Errorf("node %s is told something while an administrator has it cordoned", a.Node)
			}
		}
		waiting := rollout.Explain(f, w, noon)
		if !slices.IsSortedFunc(waiting, func(a, b poolstate.Waiting) int { return strings.Compare(a.Node, b.Node) }) {
			t.Error("the explanation is not in order")
		}
		for _, x := range waiting {
			seen[x.Node]++
			if x.Cause == "" || x.Reason == "" {
				t.Errorf("node %s waits without a reason", x.Node)
			}
		}
		for _, n := range f.Nodes {
			if want := n.UpdatedTo(w.Target); want == (seen[n.Name] == 1) || seen[n.Name] > 1 {
				t.Errorf("node %s appears %d times, updated %v", n.Name, seen[n.Name], want)
			}
		}
		r.Shuffle(len(f.Nodes), func(i, j int) { f.Nodes[i], f.Nodes[j] = f.Nodes[j], f.Nodes[i] })
		if diff := gocmp.Diff(w, rollout.Next(f, noon)); diff != "" {
			t.Errorf("another order of nodes gives another decision (-first +second):\n%s", diff)
		}
	})
}
