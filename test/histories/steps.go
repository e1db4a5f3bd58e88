package histories

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// steps: canaries before batches, batches before the rest. A config that the whole pool ran last needs no such care.
func (v verdict) steps() {
	c, all := v.f.Care, v.f.Care.Pace.Steps
	if v.settled() || v.decision.Target != v.f.Target {
		return
	}
	if why := shut(v.f); why != "" && len(v.disturbed()) > 0 {
		v.breaks(StepByStep, "%s is told %s, but gate %s is not open", v.disturbed()[0].Name, v.decision.Target, why)
	}
	was := c.Record
	if was.Target() != v.f.Target {
		was.Steps, was.WellSince = 0, nil
	}
	is := v.decision.Record.Steps
	for k := was.Steps; k < min(is, len(all)); k++ {
		if why := v.unfinished(all[k]); why != "" {
			v.breaks(StepByStep, "step %d of %s ends, but %s", k+1, v.decision.Target, why)
		}
		if soak := all[k].Soak; soak > 0 &&
			(k > was.Steps || was.WellSince == nil || v.now.Sub(was.WellSince.Time) < soak) {
			v.breaks(StepByStep, "step %d of %s ends without %s of soak", k+1, v.decision.Target, soak)
		}
	}
	if is < len(all) {
		v.within(all[:is+1])
	}
}

// settled tells that the pool ran the target as a whole before, so that it is no news to it.
func (v verdict) settled() bool {
	return v.f.Target == v.f.Care.Healthy || v.f.Target == v.decision.Record.LastHealthy() ||
		v.decision.Record.Ended != nil
}

// disturbed are the fresh nodes that do not run the target yet.
func (v verdict) disturbed() []*poolstate.Node {
	var out []*poolstate.Node
	for _, n := range v.fresh {
		if n.Config.Current != v.decision.Target {
			out = append(out, n)
		}
	}
	return out
}

// shut names a gate of the whole pool that is not open.
func shut(f poolstate.Facts) string {
	for _, g := range f.Care.Pace.Gates {
		if g.Prometheus == nil {
			continue
		}
		for _, answer := range f.Care.Gates {
			if answer.Name == g.Name && answer.Verdict != poolstate.GateOpen {
				return g.Name
			}
		}
	}
	return ""
}

// unfinished says why a step is not at its end.
func (v verdict) unfinished(s schedule.Step) string {
	selected, well := 0, 0
	for i := range v.f.Nodes {
		n := &v.f.Nodes[i]
		if s.Selector != nil && !s.Selector.Matches(labels.Set(n.Labels)) {
			continue
		}
		selected++
		if v.well(n) {
			well++
		} else if s.Selector != nil {
			return n.Name + " is not well"
		}
	}
	switch {
	case s.Selector != nil && selected == 0 && len(v.f.Nodes) > 0:
		return "its selector picks no node"
	case s.Selector == nil && well < min(s.Size(len(v.f.Nodes)), len(v.f.Nodes)):
		return "too few nodes are well"
	}
	for _, g := range v.f.Care.Pace.Gates {
		open := g.Job == nil && g.Prometheus == nil
		for _, answer := range v.f.Care.Gates {
			open = open || answer.Name == g.Name && answer.Verdict == poolstate.GateOpen
		}
		if !open {
			return "gate " + g.Name + " is not open"
		}
	}
	return ""
}

// well: a node runs the target, and its gates hold.
func (v verdict) well(n *poolstate.Node) bool {
	if !done(n) || n.Config.Current != v.decision.Target || !ready(n) || n.Gate != "" {
		return false
	}
	for _, g := range v.f.Care.Pace.Gates {
		if g.Ready != nil && v.now.Sub(n.Health.ReadySince) < g.Ready.For.Duration {
			return false
		}
	}
	return true
}

// within: the nodes that are told belong to the steps so far.
func (v verdict) within(steps []schedule.Step) {
	last := steps[len(steps)-1]
	if last.Selector != nil {
		for _, n := range v.disturbed() {
			if !last.Selector.Matches(labels.Set(n.Labels)) {
				v.breaks(StepByStep, "%s is told %s and is no canary", n.Name, v.decision.Target)
			}
		}
		return
	}
	before := 0
	for i := range v.f.Nodes {
		n := &v.f.Nodes[i]
		lost := absent(n, v.decision.Record, v.now) || failing(n) && n.Failure.Version() == v.decision.Target
		if n.Config.Desired == v.decision.Target && !lost { // others make up for those that are
			before++
		}
	}
	if after, size := before+len(v.disturbed()), last.Size(len(v.f.Nodes)); after > before && after > size {
		v.breaks(StepByStep, "%d nodes are told %s in a step of %d", after, v.decision.Target, size)
	}
}

// absent: it was out of service when it was told, for more than ten minutes by now, or is cordoned by an administrator.
func absent(n *poolstate.Node, r v1alpha1.RolloutRecord, now time.Time) bool {
	was := n.Health.Since.Before(r.Began.Time) || slices.Contains(r.Forgiven, n.Name+"/away")
	return n.Health.Trouble != "" && was && now.Sub(n.Health.Since) > 10*time.Minute || n.Cordon.ByAdministrator() &&
		n.Config.Current == n.Config.Desired
}

// failures: as many as the policy allows, and nobody is told the same again.
func (v verdict) failures() {
	after := v.f.Care.Pace.Failures.After
	if after == 0 || !v.f.Care.RetryAt.IsZero() || v.settled() {
		return
	}
	failed := 0
	for i := range v.f.Nodes {
		if n := &v.f.Nodes[i]; failing(n) && n.Config.Desired == v.f.Target && !n.Step.Draining &&
			n.Failure.Version() == v.f.Target && !slices.Contains(v.decision.Record.Forgiven, n.Name) {
			failed++
		}
	}
	if failed >= after && v.decision.Record.Verdict == "" {
		v.breaks(FailureBudget, "%s failed on %d nodes; the policy allows %d, and no verdict falls", v.f.Target, failed,
			after-1)
	}
	for _, a := range v.decision.Assign {
		if a.Config == v.f.Target && failed >= after {
			v.breaks(FailureBudget, "%s is told %s, which failed on %d nodes; the policy allows %d", a.Node, a.Config,
				failed, after-1)
		}
	}
}
