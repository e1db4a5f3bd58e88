package histories

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"

	"github.com/bunsen-os/bunsen/reconcile/drain"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// mutants are cores that are worse than the real one in one way each, and the rules of which one must find that out.
var mutants = map[string]struct {
	spoil func(*Core)
	rules []Rule
}{
	"ignores the budget": {next(func(f *poolstate.Facts) {
		f.MaxUnavailable, f.Care.Pace.MaxUnavailable = 100, nil
	}, nil), []Rule{OverBudget}},
	"ignores the budget of a zone": {next(func(f *poolstate.Facts) { f.Care.Pace.PerZone = nil }, nil), []Rule{OverBudget}},
	"ignores a budget that is shared": {next(func(f *poolstate.Facts) {
		f.Care.Pace.Together, f.Care.Around.Together = nil, nil
	}, nil), []Rule{OverBudget}},
	"forgets the record": {next(func(f *poolstate.Facts) {
		f.Care.Record = v1alpha1.RolloutRecord{}
	}, nil), []Rule{KeptRecord, TrueReason, Converges, StepByStep, TrueHistory}},
	"drops a verdict": {next(nil, func(_ poolstate.Facts, w *poolstate.Decision) {
		w.Record.Verdict, w.Record.Why, w.Record.At = "", "", nil
	}), []Rule{KeptRecord, FailureBudget, HaltedConfig, TwoWrites}},
	"does not record a rollout that ends": {next(nil, func(_ poolstate.Facts, w *poolstate.Decision) { w.Ended = nil }), []Rule{TrueHistory}},
	"records the nodes of a later time": {next(nil, func(_ poolstate.Facts, w *poolstate.Decision) {
		for i := range w.Ended {
			w.Ended[i].Nodes++
		}
	}), []Rule{TrueHistory}},
	"records a replaced rollout as ended": {next(nil, func(_ poolstate.Facts, w *poolstate.Decision) {
		for i := range w.Ended {
			w.Ended[i].Result = v1alpha1.RolloutCompleted
		}
	}), []Rule{TrueHistory}},
	"records a rollout again when it is replaced": {next(nil, func(f poolstate.Facts, w *poolstate.Decision) {
		if was := f.Care.Record; was.Ended != nil && was.Target() != w.Record.Target() {
			w.Ended = append(w.Ended, v1alpha1.RolloutOutcome{Config: was.Config, Result: v1alpha1.RolloutCompleted})
		}
	}), []Rule{TrueHistory}},
	"tells a halted config": {next(func(f *poolstate.Facts) {
		f.Care.Record.Verdict, f.Care.Pace.Failures = "", schedule.Failures{}
	}, nil), []Rule{KeptRecord, FailureBudget, HaltedConfig}},
	"tells outside of windows": {next(func(f *poolstate.Facts) { f.Care.Pace.Windows = schedule.Windows{} }, nil), []Rule{ClosedWindow}},
	"tells while paused":       {next(func(f *poolstate.Facts) { f.Paused = false }, nil), []Rule{PausedPool}},
	"skips the canaries":       {next(func(f *poolstate.Facts) { f.Care.Pace.Steps = nil }, nil), []Rule{StepByStep}},
	"does not wait for a soak": {next(func(f *poolstate.Facts) { f.Care.Pace.Steps = withoutSoak(f.Care.Pace.Steps) }, nil), []Rule{StepByStep}},
	"does not ask the gates":   {next(func(f *poolstate.Facts) { f.Care.Pace.Gates = nil }, nil), []Rule{StepByStep}},
	"does not wait for a pool": {next(func(f *poolstate.Facts) { f.Care.Around.Ahead, f.Care.Pace.After = nil, nil }, nil), []Rule{AfterPools}},
	"takes any node of etcd":   {next(func(f *poolstate.Facts) { f.Care.Around.Quorum = "" }, nil), []Rule{KeptQuorum}},
	"starts the arbiter while a master is away": {next(func(f *poolstate.Facts) {
		if f.Pool == poolstate.ArbiterPool {
			f.Care.Around.Quorum = ""
		}
	}, nil), []Rule{KeptQuorum}},
	"takes nodes short of disk from etcd": {next(func(f *poolstate.Facts) {
		f.Nodes = slices.Clone(f.Nodes)
		for i := range f.Nodes {
			f.Nodes[i].Health.NotReady, f.Nodes[i].LiveMember = f.Nodes[i].Health.Trouble != "", false
		}
	}, nil), []Rule{KeptQuorum}},
	"takes nodes that are not Ready from etcd": {next(func(f *poolstate.Facts) {
		f.Nodes = slices.Clone(f.Nodes)
		for i := range f.Nodes {
			f.Nodes[i].LiveMember = false
		}
	}, nil), []Rule{KeptQuorum}},
	"taints at every look":      {next(nil, taintAgain), []Rule{TwoWrites, Rest}},
	"never tells the last node": {next(nil, tellAllButOne), []Rule{Converges, EveryNode, TrueReason}},
	"lets the broken wait":      {next(func(f *poolstate.Facts) { f.Nodes = withoutBroken(f.Nodes, f.Target.String()) }, nil), []Rule{BrokenFirst, EveryNode, Converges, OverBudget, StepByStep, TrueReason, TrueHistory}},
	"tells a config without its secrets": {next(nil, func(_ poolstate.Facts, w *poolstate.Decision) {
		for i := range w.Assign {
			w.Assign[i].Config.Secrets = ""
		}
	}), []Rule{KnownSecrets}},
	"tells secrets that nobody published": {next(nil, func(_ poolstate.Facts, w *poolstate.Decision) {
		for i := range w.Assign {
			if w.Assign[i].Config.Secrets != "" {
				w.Assign[i].Config.Secrets = "a00"
			}
		}
	}), []Rule{KnownSecrets}},
	"does not wait for the server to resolve secrets": {next(func(f *poolstate.Facts) { f.Secrets.Unresolved = "" }, nil), []Rule{KnownSecrets}},
	"takes new secrets for the old ones": {next(func(f *poolstate.Facts) {
		if r := f.Care.Record; r.Config == f.Target.Config && r.Secrets != "" {
			f.Target = r.Target()
		}
	}, nil), []Rule{Converges, TrueStatus, TrueReason, Rest}},
	"tells a config before its files are there": {next(func(f *poolstate.Facts) {
		f.Nodes = slices.Clone(f.Nodes)
		for i := range f.Nodes {
			f.Nodes[i].Ahead = false
		}
	}, nil), []Rule{FilesFirst}},
	"waits for files that it does not let nodes download": {next(nil, func(_ poolstate.Facts, w *poolstate.Decision) { w.Announce = nil }), []Rule{Converges, TrueReason, EveryNode}},
	"lifts any cordon": {func(c *Core) {
		c.Uncordon = func(drain.Cordoned) drain.Change { return drain.Change{Needed: true} }
	}, []Rule{AdminCordon}},
	"marks an administrator's cordon": {func(c *Core) {
		c.Cordon = func(is drain.Cordoned, config string) drain.Change {
			ours := drain.Cordoned{Unschedulable: true, For: config}
			return drain.Change{Needed: is != ours, To: ours}
		}
	}, []Rule{AdminCordon}},
	"never lifts its own cordon": {func(c *Core) {
		c.Uncordon = func(is drain.Cordoned) drain.Change { return drain.Change{To: is} }
	}, []Rule{OwnCordon, Converges}},
	"acknowledges a drain at once": {func(c *Core) {
		c.Acknowledge = func(r drain.Request, is drain.Cordoned, _ bool) (string, bool) {
			return drain.Acknowledge(r, is, true)
		}
	}, []Rule{DrainedNode}},
	"deletes pods at once": {func(c *Core) {
		c.Decide = func(f drain.Facts, now time.Time) drain.Progress {
			f.Pace = schedule.Drain{WhenBlocked: v1alpha1.DrainDelete}
			return drain.Decide(f, now)
		}
	}, []Rule{PodBudget}},
}

// next spoils what goes into a decision, or what comes out of it.
func next(in func(*poolstate.Facts), out func(poolstate.Facts, *poolstate.Decision)) func(*Core) {
	return func(c *Core) {
		c.Next = func(f poolstate.Facts, now time.Time) poolstate.Decision {
			if in != nil {
				in(&f)
			}
			w := rollout.Next(f, now)
			if out != nil {
				out(f, &w)
			}
			return w
		}
	}
}

func withoutSoak(steps []schedule.Step) []schedule.Step {
	var out []schedule.Step
	for _, s := range steps {
		s.Soak = 0
		out = append(out, s)
	}
	return out
}

func withoutBroken(nodes []poolstate.Node, target string) []poolstate.Node {
	var out []poolstate.Node
	for i := range nodes {
		if !broken(&nodes[i], target) {
			out = append(out, nodes[i])
		}
	}
	return out
}

func taintAgain(f poolstate.Facts, w *poolstate.Decision) {
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Config.Desired != w.Target && len(w.Assign) == 0 {
			if n.Tainted {
				w.Untaint = append(w.Untaint, n.Name)
			} else {
				w.Taint = []string{n.Name}
			}
			return
		}
	}
}

func tellAllButOne(f poolstate.Facts, w *poolstate.Decision) {
	for i, a := range w.Assign {
		if a.Node == f.Nodes[len(f.Nodes)-1].Name {
			w.Assign = append(w.Assign[:i:i], w.Assign[i+1:]...)
			return
		}
	}
}

// firstSeeds are the seeds of the first histories that break a rule of some mutants: those before need not be played
// each time. A change to the histories moves them; a seed that is too low then costs time, and one that is too high
// finds a later one.
var firstSeeds = map[string]uint64{
	"does not wait for a pool":        298,
	"lifts any cordon":                667,
	"marks an administrator's cordon": 209,
}

// TestEveryMutantIsCaught: a rule that nothing can break proves nothing. Each mutant breaks one of its rules within a
// few histories, and the story of that is short.
func TestEveryMutantIsCaught(t *testing.T) {
	collectRarely(t)
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			core := Real()
			m.spoil(&core)
			for s := max(firstSeeds[name], 1); s <= 1000; s++ {
				h := Random(s)
				r := Play(h, core)
				if r.Broken == "" {
					continue
				}
				small := Shrink(h, core)
				story := Story(small, core)
				if !oneOf(m.rules, r.Broken) {
					t.Fatalf("seed %d breaks another rule than %q:\n%s", s, m.rules, story)
				}
				if lines := strings.Count(story, "\n"); lines > longestStory {
					t.Errorf("the story has %d lines:\n%s", lines, story)
				}
				t.Logf("seed %d, %d of %d steps:\n%s", s, len(small.Steps), len(h.Steps), story)
				return
			}
			t.Error("no history breaks a rule")
		})
	}
}

// longestStory is how many lines the story of a mutant may have.
const longestStory = 60

func oneOf(rules []Rule, r Rule) bool {
	for _, x := range rules {
		if x == r {
			return true
		}
	}
	return false
}
