package rollout

import (
	"time"

	"github.com/bunsen-os/bunsen/reconcile/rollout/nodestate"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

const (
	// minRequeue is the minimum time between two decisions. There is a minimum because the precision of a clock is
	// limited.
	minRequeue = time.Second
	// recheckGates is the time until the next decision while the rollout waits for a job or a query.
	recheckGates = 15 * time.Second
	// recheckNodes is the time until the next decision while a node is at work, because an event can be lost.
	recheckNodes = time.Minute
	// maxRequeue is the maximum time until the next decision while the rollout waits. There is a maximum because a user
	// can set the clock.
	maxRequeue = 10 * time.Minute
)

// plan has the results of all steps of a decision.
type plan struct {
	evaluation
	capacity capacity
	step     step
	blockers blockers
	assigned assignments
	released []Release
}

// newPlan computes all steps of a decision and returns their results.
func newPlan(f poolstate.Facts, now time.Time) plan {
	e := evaluate(f, now)
	c := measure(e)
	s := currentStep(e, c)
	e.record = s.record
	b := findBlockers(e, c)
	a := assign(e, c, s, b)
	e.record = forgiveAssigned(e, a.members)
	e.again = earliest(e.again, c.again, s.again, b.again, a.again)
	p := plan{evaluation: e, capacity: c, step: s, blockers: b, assigned: a}
	if len(b.stops)+len(b.holds) == 0 {
		released, again := postponeDrains(e, c, s, a)
		p.released, p.again = released, earliest(p.again, again)
	}
	return p
}

// Next decides which configs a pool's nodes are assigned now. Next assigns nothing while the pool is paused, has no
// target, or has a target with secrets that the server has not resolved.
//
// An assigned node takes a place in the budget until it is done. A node that is already out of service, because it
// failed another config or changes to another config, takes no new place. So a node that takes no new place can be
// assigned the target at once. At most MaxUnavailable nodes are at work at a time.
func Next(f poolstate.Facts, now time.Time) Decision {
	if f.Target == "" {
		e := evaluate(f, now)
		return Decision{Record: e.record, Counts: counts(e, settling{}), Blocks: invalidBlocks(f.Care)}
	}
	if f.Secrets.Unresolved != "" {
		return Decision{Record: f.Care.Record, Counts: Count(f), Blocks: append(invalidBlocks(f.Care), Block{Cause: CauseSecrets, Reason: f.Secrets.Unresolved})}
	}
	p := newPlan(f, now)
	w := Decision{
		Record: p.record, Past: pastOutcome(p.evaluation), Target: p.nodes.Target, Assign: assignmentsOf(p), Release: p.released,
		Counts: counts(p.evaluation, p.capacity.settling), Stage: p.step.Stage,
	}
	w.Label, w.Taint, w.Untaint = marks(p)
	blocks, again := poolBlocks(p)
	w.Blocks, again = blocks, earliest(p.again, again)
	if p.nodes.Total.Changing > 0 || len(w.Assign) > 0 {
		again = earliest(again, now.Add(recheckNodes))
	}
	if !again.IsZero() {
		w.RequeueAfter = min(max(again.Sub(now), minRequeue), maxRequeue)
	}
	return w
}

// CountAt counts the nodes of a pool at a point in time, as Next does.
func CountAt(f poolstate.Facts, now time.Time) nodestate.Counts {
	if f.Target == "" {
		return counts(evaluate(f, now), settling{})
	}
	if f.Secrets.Unresolved != "" {
		return Count(f)
	}
	p := newPlan(f, now)
	return counts(p.evaluation, p.capacity.settling)
}

// Count counts the nodes of a pool for its target, independently of time. Count treats a gate that requires a node to
// be Ready for a duration as open.
func Count(f poolstate.Facts) nodestate.Counts {
	var c nodestate.Counts
	for _, n := range f.Care.NodeConfigs.InTermsOf(f.Nodes, f.Target) {
		m := nodestate.NewMember(&n, f.Target, nil)
		c = c.With(m.Node, f.Target, m.Places())
	}
	return c
}

func assignmentsOf(p plan) []Assignment {
	var out []Assignment
	for _, m := range p.assigned.members {
		out = append(out, Assignment{
			Node: m.Name, Config: p.Care.NodeConfigs.Own(p.nodes.Target, m.Name), Was: p.Care.NodeConfigs.Own(m.Config.Desired, m.Name), DropImage: m.Config.DesiredImage != "", Untaint: m.Tainted,
			Recovery: m.Failing() && m.Candidate != nodestate.CandidateInService,
		})
	}
	return out
}

// marks returns the labels and taints for nodes without an assignment. Nodes of a paused pool get no new taints and
// labels.
func marks(p plan) (label []Label, taint, untaint []string) {
	marked, pools := p.assigned.set(), p.Care.Around.Customs
	frozen := p.Paused || p.Care.Invalid != ""
	for _, m := range p.nodes.All {
		switch {
		case m.Assigned && m.Tainted:
			untaint = append(untaint, m.Name)
		// The decision already writes to this node, and it writes to each node only once.
		case m.Assigned, m.Tainted, frozen, marked[m], m.NeedsPoolCheck(pools):
		default:
			taint = append(taint, m.Name)
		}
	}
	if frozen {
		return nil, nil, untaint
	}
	for _, m := range p.nodes.Candidates[nodestate.CandidateLabel] {
		if c := m.AdmittedPool(pools); c != nil {
			label = append(label, Label{Node: m.Name, Labels: c.Labels})
			continue
		}
		label = append(label, Label{Node: m.Name, Attest: true})
	}
	return label, taint, untaint
}
