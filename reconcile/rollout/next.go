package rollout

import (
	"time"

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
	released []poolstate.Release
}

// newPlan computes all steps of a decision and returns their results.
func newPlan(f poolstate.Facts, now time.Time) plan {
	e := evaluate(f, now)
	c := measure(e)
	s := currentStep(e, c)
	e.record = s.record
	b := findBlockers(e, c)
	open := admit(e, b)
	a := assign(open, c, s)
	e.record = forgiveAssigned(e, a.members)
	e.again = earliest(open.again, c.again, s.again, b.again, a.again)
	p := plan{evaluation: e, capacity: c, step: s, blockers: b, assigned: a}
	if len(b.stops)+len(b.holds) == 0 {
		released, again := postponeDrains(open, c, s, a)
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
func Next(f poolstate.Facts, now time.Time) poolstate.Decision {
	if f.Target == "" {
		e := evaluate(f, now)
		return poolstate.Decision{Record: e.record, Counts: counts(e, settling{}), Blocks: invalidBlocks(f.Care)}
	}
	if f.Secrets.Unresolved != "" {
		return poolstate.Decision{
			Record: f.Care.Record, Counts: poolstate.Count(f),
			Blocks: append(invalidBlocks(f.Care),
				poolstate.Block{Cause: poolstate.CauseSecrets, Reason: f.Secrets.Unresolved}),
		}
	}
	p := newPlan(f, now)
	w := poolstate.Decision{
		Record: p.record, Ended: endedRollouts(p.evaluation), Target: p.nodes.Target, Assign: assignmentsOf(p),
		Release: p.released,
		Counts:  counts(p.evaluation, p.capacity.settling), Stage: p.step.Stage,
	}
	w.Marks = marksOf(p)
	blocks, again := poolBlocks(p)
	w.Blocks, again = blocks,
		earliest(p.again, again, content(p.evaluation).Late(p.nodes.Candidates[poolstate.CandidateInService]))
	if p.nodes.Total.Changing > 0 || len(w.Assign) > 0 {
		again = earliest(again, now.Add(recheckNodes))
	}
	if !again.IsZero() {
		w.RequeueAfter = min(max(again.Sub(now), minRequeue), maxRequeue)
	}
	return w
}

// CountAt counts the nodes of a pool at a point in time, as Next does.
func CountAt(f poolstate.Facts, now time.Time) poolstate.Counts {
	if f.Target == "" {
		return counts(evaluate(f, now), settling{})
	}
	if f.Secrets.Unresolved != "" {
		return poolstate.Count(f)
	}
	p := newPlan(f, now)
	return counts(p.evaluation, p.capacity.settling)
}

func assignmentsOf(p plan) []poolstate.Assignment {
	var out []poolstate.Assignment
	for _, m := range p.assigned.members {
		out = append(out, poolstate.Assignment{
			Node: m.Name, Config: p.Care.NodeConfigs.Own(p.nodes.Target, m.Name),
			Was: p.Care.NodeConfigs.Own(m.Config.Desired, m.Name), DropImage: m.Config.DesiredImage != "" ||
				m.Config.CurrentImage != "",
			Untaint:  m.Tainted,
			Recovery: m.Failing() && m.Candidate != poolstate.CandidateInService,
		})
	}
	return out
}

// marksOf returns the writes for nodes without an assignment. Nodes of a paused pool get no new taints and labels, and
// are told nothing to download.
func marksOf(p plan) poolstate.Marks {
	written := p.assigned.set()
	for _, r := range p.released {
		written[p.nodes.ByName(r.Node)] = true
	}
	return MarksFor(MarkedPool{
		Nodes: p.nodes, Customs: p.Care.Around.Customs, Content: content(p.evaluation),
		Written: func(m *poolstate.Member) bool { return written[m] },
		Frozen:  p.Paused || p.Care.Invalid != "", Stopped: len(p.blockers.stops) > 0,
		Canaries: p.step.policy.Selector != nil, Max: p.capacity.max,
	})
}

// content returns the content that nodes download before they are assigned the target. Nodes of a reverted pool have
// that of the config to which they return.
func content(e evaluation) NextContent {
	return NextContent{
		Needed: e.record.Fetches && e.nodes.Target == e.Target, Images: e.nodes.Target == e.Target,
		Target: e.nodes.Target, Configs: e.Care.NodeConfigs, Now: e.now,
	}
}
