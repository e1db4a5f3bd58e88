package rollout

import (
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// step is the current step of a rollout.
type step struct {
	poolstate.Stage
	// policy has the step's settings in the policy.
	policy schedule.Step
	// limited is true if the step limits which nodes are assigned; otherwise only the budget limits them.
	limited bool
	// soaked is when the nodes of the step will have been healthy for long enough; zero while they are not healthy.
	soaked time.Time
	// record is the record with the number of completed steps.
	record v1alpha1.RolloutRecord
	again  time.Time
}

// currentStep finds the current step, and starts the next step if the current one has ended. A step ends if its nodes
// run the target and have been healthy for the soak, and its jobs and queries succeed. At most one step ends at a time,
// because the answer of a job is about one step only.
func currentStep(e evaluation, c capacity) step {
	r := e.record
	s := stepNumber(min(r.Steps, len(e.Care.Pace.Steps)), e, c)
	s.record = r
	if !s.limited || s.Healthy < s.Want || s.Want == 0 {
		s.record.WellSince = nil
		return s
	}
	// A time in the future means that the clock was set back.
	if r.WellSince == nil || r.WellSince.After(e.now.Add(time.Second)) {
		s.record.WellSince = stampUp(e.now)
	}
	s.soaked = s.record.WellSince.Add(s.policy.Soak)
	if e.now.Before(s.soaked) && s.policy.Soak > 0 {
		s.again = earliest(s.again, s.soaked)
		return s
	}
	s.Due = true
	if _, closed := closedGate(e, anyGate); closed {
		s.again = earliest(s.again, e.now.Add(recheckGates))
		return s
	}
	r.Steps, r.WellSince = s.Step+1, nil
	next := stepNumber(r.Steps, e, c)
	next.record, next.again = r, earliest(s.again, next.again, e.now.Add(minRequeue))
	return next
}

// stepNumber counts the nodes of one step. There is no limit in a pool that has completed its steps, was reverted, or
// returns to its last config.
func stepNumber(number int, e evaluation, c capacity) step {
	steps, total := e.Care.Pace.Steps, e.nodes.Total
	s := step{Stage: poolstate.Stage{
		Step: len(steps), Of: len(steps), Want: total.Nodes, Assigned: total.Assigned,
		Healthy: total.Healthy - c.settling.nodes,
	}}
	if number >= len(steps) || e.record.Verdict != "" || settled(e) {
		return s
	}
	s.policy, s.limited = steps[number], true
	s.Step, s.Canary = number, s.policy.Canary
	absent, again := countAbsent(e)
	s.again = again
	if s.policy.Selector != nil {
		canary := e.nodes.Canary
		s.Want, s.Assigned, s.Healthy = canary.Nodes, canary.Assigned, canary.Healthy-c.settling.canaries
		return s
	}
	s.Want = min(s.policy.Size(total.Nodes), total.Nodes)
	s.Assigned -= total.Failed + absent // Nodes that did not fail replace as many failed nodes as the policy allows.
	return s
}

// countAbsent counts the nodes that were assigned the target and cannot try it, for reasons other than the target.
// Other nodes are assigned the target instead of the absent nodes.
func countAbsent(e evaluation) (n int, again time.Time) {
	for _, m := range e.nodes.Occupying {
		if !m.Assigned || !m.Unavailable() || m.Failed {
			continue
		}
		before := m.Health.Trouble != "" && (wasNotReady(e.record, m) || !notReadySinceStart(e.record, m))
		dead := before && age(e.now, m.Health.Since) > slow
		if before && !dead {
			again = earliest(again, m.Health.Since.Add(slow+time.Second))
		}
		if dead || m.Cordon.ByAdministrator() && !m.Changing() {
			n++
		}
	}
	return n, again
}

// lets reports whether the step allows the assignment of a node. The parameter is the number of nodes that the decision
// has assigned before this node. Nodes that failed another config do not wait for a step.
func (s step) lets(m *poolstate.Member, others int) bool {
	switch {
	case !s.limited || m.Failing():
		return true
	case s.policy.Selector != nil:
		return m.Canary
	}
	return s.Assigned+others < s.Want
}

// gateKinds selects kinds of a pool's gates.
type gateKinds bool

const (
	// queries selects only queries, which delay every node.
	queries gateKinds = false
	// anyGate selects all gates: the queries, and the jobs at the end of a step.
	anyGate gateKinds = true
)

// closedGate finds the first gate of the pool that is not open. A gate without an answer is not open.
func closedGate(e evaluation, kinds gateKinds) (poolstate.Block, bool) {
	for _, g := range e.Care.Pace.Gates {
		if g.Prometheus == nil && (g.Job == nil || kinds == queries) {
			continue
		}
		a := answerOf(e.Care.Gates, g.Name)
		if a.Verdict == poolstate.GateOpen {
			continue
		}
		if a.Verdict == "" {
			a.Why = "not asked yet"
		}
		return poolstate.Block{
			Cause: poolstate.CauseGate, Reason: "gate " + g.Name + ": " + a.Why,
			Closed: []v1alpha1.ClosedGate{{Gate: g.Name, Why: a.Why}},
		}, true
	}
	return poolstate.Block{}, false
}

// answerOf returns the worst answer of the gates with a name, because policies may use a name twice.
func answerOf(gates []poolstate.Gate, name string) poolstate.Gate {
	var worst poolstate.Gate
	for _, g := range gates {
		if g.Name == name && (worst.Verdict == "" || worst.Verdict == poolstate.GateOpen) {
			worst = g
		}
	}
	return worst
}
