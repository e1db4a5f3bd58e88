package rollout

import (
	"time"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// Explain returns, for each node that does not run the target, why it is not assigned it now, by name. w is the result
// of Next for the same facts at the same time.
func Explain(f poolstate.Facts, w poolstate.Decision, now time.Time) []poolstate.Waiting {
	if f.Target.IsZero() {
		return nil
	}
	if f.Secrets.Unresolved != "" {
		return explainUnresolved(f)
	}
	p := newPlan(f, now)
	x := explanation{
		plan: p, wording: poolstate.Wording{
			Now: now, Target: p.nodes.Target, Stable: f.Timestamps,
			Most: poolstate.MaxReason,
		}, released: map[string]bool{},
		step: poolstate.Block{Cause: poolstate.CauseStep, Reason: stepText(p.step)},
	}
	x.budget = budgetText(p, x.wording)
	if b, _ := stepBlocks(p); len(b) > 0 {
		x.step = b[0]
	}
	assigned := map[string]bool{}
	for _, a := range w.Assign {
		assigned[a.Node] = true
	}
	for _, r := range w.Release {
		x.released[r.Node] = true
	}
	var out []poolstate.Waiting
	for _, m := range p.nodes.All {
		if !m.Updated && !assigned[m.Name] {
			cause, reason := x.why(m)
			out = append(out, poolstate.Waiting{Node: m.Name, Cause: cause, Reason: reason})
		}
	}
	return out
}

// explainUnresolved: each node waits for the secrets of the target.
func explainUnresolved(f poolstate.Facts) []poolstate.Waiting {
	var out []poolstate.Waiting
	for _, m := range classifyFor(f, f.Target).All {
		if !m.Updated {
			out = append(out, poolstate.Waiting{
				Node: m.Name, Cause: poolstate.CauseSecrets,
				Reason: f.Secrets.Unresolved,
			})
		}
	}
	return out
}

// explanation is a plan with data for texts about nodes.
type explanation struct {
	plan     plan
	wording  poolstate.Wording
	released map[string]bool
	// why the current step has no room for more nodes
	step poolstate.Block
	// budgetText, the same for thousands of nodes
	budget string
}

// why is for a node without an assignment.
func (x explanation) why(m *poolstate.Member) (poolstate.Cause, string) {
	stops := x.plan.blockers.stops
	switch {
	case m.Failed:
		return poolstate.CauseFailed, x.wording.State(m.Node)
	case x.released[m.Name]:
		return poolstate.CauseDrain, "its drain is postponed: its pods cannot be evicted, and other nodes go first"
	case m.Assigned && m.StoppedReporting():
		return poolstate.CauseNotReady, x.wording.State(m.Node)
	case m.Assigned, m.Changing() && !m.Failing():
		return poolstate.CauseUpdating, x.wording.State(m.Node)
	case len(stops) > 0:
		return stops[0].Cause, stops[0].Reason
	case m.Candidate == poolstate.CandidateLabel:
		return poolstate.CauseLabels, m.LabelText()
	case m.Cordon.ByAdministrator():
		return poolstate.CauseCordoned, "cordoned, not by Bunsen; it updates once it is uncordoned"
	case !m.Ready() && keepsQuorum(x.plan.evaluation, m):
		return poolstate.CauseAfterPool, x.plan.Care.Around.Quorum
	case m.Candidate == poolstate.CandidateFailed:
		return poolstate.CauseBudget, x.budget
	case m.Cordon.Unschedulable:
		return poolstate.CauseCordoned, x.wording.State(m.Node)
	case m.Health.Trouble != "":
		return poolstate.CauseNotReady, x.wording.Health(m.Node)
	}
	return x.whyInService(m)
}

// whyInService is for a node that could be assigned the target.
func (x explanation) whyInService(m *poolstate.Member) (poolstate.Cause, string) {
	p := x.plan
	used := p.capacity.used + p.assigned.inService
	c := content(p.evaluation)
	switch {
	case c.FailsOn(m):
		return poolstate.CauseFetch, c.Text(m)
	case len(p.blockers.holds) > 0:
		return p.blockers.holds[0].Cause, p.blockers.holds[0].Reason
	case !p.step.lets(m, len(p.assigned.members)):
		return x.step.Cause, x.step.Reason
	case !c.On(m):
		return poolstate.CauseFetch, c.Text(m)
	case !m.PostponedAt.IsZero():
		return poolstate.CauseDrain, "its drain was postponed; it goes last"
	case m.RunsController && p.assigned.inService > 0:
		return poolstate.CauseHost, "the controller runs on it, so it updates last"
	case p.Care.Around.Quorum != "":
		return poolstate.CauseAfterPool, p.Care.Around.Quorum
	}
	for _, t := range p.Care.Around.Together {
		if t.Left(used) <= 0 {
			return poolstate.CauseTogether, sharedText(p, t)
		}
	}
	if used < p.capacity.max && p.capacity.zone(m.Zone) <= p.assigned.zones[m.Zone] {
		return poolstate.CauseBudget, zoneText(p, m.Zone)
	}
	return poolstate.CauseBudget, x.budget
}
