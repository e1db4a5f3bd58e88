package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

const (
	// for a drain, or a node that is not Ready, to count as progress
	slow = 10 * time.Minute
	// for a PodDisruptionBudget to delay a drain, before a block reports that
	forbidden = 5 * time.Second
	// for a node to be not Ready before a block reports it, unless a reboot or an update explains that
	Flapping = 30 * time.Second
)

// poolBlocks are about the pool as a whole, most important first.
func poolBlocks(p plan) (out []poolstate.Block, again time.Time) {
	if p.Care.Lost != "" {
		out = append(out, poolstate.Block{Cause: poolstate.CauseInvalid, Reason: p.Care.Lost})
	}
	behind := p.nodes.Total.Behind > 0
	for _, b := range p.blockers.stops {
		if behind || b.Cause != poolstate.CausePaused && b.Cause != poolstate.CauseBudget {
			out = append(out, b)
		}
	}
	if p.record.Verdict == v1alpha1.RolloutReverted {
		out = append(out, verdictBlock(p.Pool, p.record))
	}
	if !behind {
		blocks, again := notReadyBlocks(p)
		return append(out, blocks...), again
	}
	if len(p.blockers.stops) == 0 {
		step, stepAgain := stepBlocks(p)
		out = slices.Concat(out, p.blockers.holds, step)
		places, placesAgain := placeBlocks(p, len(out) > 0)
		out, again = append(out, places...), earliest(stepAgain, placesAgain)
	}
	drains, drainsAgain := drainBlocks(p)
	return append(out, drains...), earliest(again, drainsAgain)
}

// placeBlocks say why no node is assigned, although nothing else blocks the pool and no node makes progress. otherwise:
// another reason was found.
func placeBlocks(p plan, otherwise bool) (blocks []poolstate.Block, again time.Time) {
	if len(p.assigned.members) > 0 || len(p.released) > 0 {
		return nil, again
	}
	moving, again := makesProgress(p)
	if moving {
		return nil, again
	}
	blocks = placesTaken(p, otherwise)
	if waiting := content(p.evaluation).Waiting(p.nodes.Candidates[poolstate.CandidateInService]); waiting != "" &&
		!otherwise && len(blocks) == 0 {
		blocks = []poolstate.Block{{Cause: poolstate.CauseFetch, Reason: waiting}}
	}
	return blocks, again
}

// placesTaken names the nodes that take the places of the budgets, or says why no node is a candidate.
func placesTaken(p plan, otherwise bool) []poolstate.Block {
	candidates, held := 0, slices.ContainsFunc(p.nodes.All, func(m *poolstate.Member) bool {
		return keepsQuorum(p.evaluation, m)
	})
	for _, kind := range []poolstate.Candidate{
		poolstate.CandidateInService, poolstate.CandidateFailed,
		poolstate.CandidateChanging, poolstate.CandidateDegraded,
	} {
		candidates += len(p.nodes.Candidates[kind])
	}
	if candidates == 0 && !held {
		waiting := poolstate.Filter(p.nodes.Occupying, func(m *poolstate.Member) bool {
			return !m.Updated && !drainsSlowly(p, m)
		})
		if otherwise || len(waiting) == 0 {
			return nil
		}
		return []poolstate.Block{{Cause: unavailableCause(p), Reason: poolstate.Describe(waiting,
			stableWording(p.evaluation).State)}}
	}
	var out []poolstate.Block
	if held {
		out = append(out, poolstate.Block{Cause: poolstate.CauseAfterPool, Reason: p.Care.Around.Quorum})
	}
	for _, t := range p.Care.Around.Together {
		if t.Left(p.capacity.used) <= 0 {
			out = append(out, poolstate.Block{Cause: poolstate.CauseTogether, Reason: sharedText(p, t)})
		}
	}
	if s := p.capacity.settling; s.nodes > 0 && p.nodes.Total.Gated == 0 &&
		p.capacity.used-s.nodes < p.capacity.max {
		b, _ := nodeGatesBlock(p)
		return append(out, b)
	}
	if p.capacity.used >= p.capacity.max {
		return append(out, poolstate.Block{
			Cause: poolstate.CauseBudget, Reason: budgetText(p, stableWording(p.evaluation)),
			Closed: closedNodeGates(p),
		})
	}
	if otherwise || len(out) > 0 {
		return out
	}
	for _, m := range p.nodes.Candidates[poolstate.CandidateInService] {
		if p.step.lets(m, 0) && p.capacity.zone(m.Zone) == 0 {
			return []poolstate.Block{{
				Cause: poolstate.CauseBudget, Reason: zoneText(p, m.Zone),
				Closed: closedNodeGates(p),
			}}
		}
	}
	return out
}

// notReadyBlocks names nodes that run the target and have been not Ready for longer than Flapping. The pool does not
// count as updated before they are.
func notReadyBlocks(p plan) (blocks []poolstate.Block, again time.Time) {
	var dead []*poolstate.Member
	for _, m := range p.nodes.Occupying {
		switch {
		case m.Health.Trouble == "" || m.Changing():
		case age(p.now, m.Health.Since) < Flapping:
			again = earliest(again, m.Health.Since.Add(Flapping))
		default:
			dead = append(dead, m)
		}
	}
	if len(dead) == 0 {
		return nil, again
	}
	return []poolstate.Block{{
		Cause:  poolstate.CauseNotReady,
		Reason: poolstate.Describe(dead, stableWording(p.evaluation).State),
	}}, again
}

// drainBlocks names drains that take long, or that a PodDisruptionBudget has delayed for longer than the time
// forbidden.
func drainBlocks(p plan) (blocks []poolstate.Block, again time.Time) {
	var delayed []*poolstate.Member
	for _, m := range p.nodes.Occupying {
		since := m.Step.HeldUpSince
		forbids := !since.IsZero() && age(p.now, since) >= forbidden
		if !since.IsZero() && !forbids {
			again = p.now.Add(forbidden)
		}
		if forbids || drainsSlowly(p, m) {
			delayed = append(delayed, m)
		}
	}
	if len(delayed) == 0 {
		return nil, again
	}
	return []poolstate.Block{{
			Cause:  poolstate.CauseDrain,
			Reason: poolstate.Describe(delayed, stableWording(p.evaluation).Draining),
		}},
		again
}

// invalidBlocks need a user.
func invalidBlocks(c poolstate.Care) []poolstate.Block {
	var blocks []poolstate.Block
	if c.Invalid != "" {
		blocks = append(blocks, poolstate.Block{
			Cause: poolstate.CauseInvalid, Reason: c.Invalid,
			Policies: c.InvalidPolicies,
		})
	}
	if c.Lost != "" {
		blocks = append(blocks, poolstate.Block{Cause: poolstate.CauseInvalid, Reason: c.Lost})
	}
	return blocks
}

// stepBlocks say why the current step does not end.
func stepBlocks(p plan) (blocks []poolstate.Block, again time.Time) {
	s := p.step
	if !s.limited {
		return nil, again
	}
	if s.Due {
		g, _ := closedGate(p.evaluation, anyGate)
		if n := len(p.blockers.holds); n > 0 && slices.Equal(p.blockers.holds[n-1].Closed, g.Closed) {
			return nil, again // The block of a query already reports this gate.
		}
		return []poolstate.Block{g}, again
	}
	if !s.soaked.IsZero() {
		return []poolstate.Block{{
			Cause: poolstate.CauseSoak, Until: s.soaked,
			Reason: fmt.Sprintf("%s; soaking until %s", stepText(s),
				poolstate.FormatDeadline(s.soaked, s.policy.Soak)),
		}}, again
	}
	if s.policy.Selector != nil && s.Want == 0 {
		return []poolstate.Block{{
			Cause: poolstate.CauseStep,
			Reason: fmt.Sprintf("the canary's nodeSelector %s matches no node of pool "+
				"%s; label one, or correct the RolloutPolicy",
				s.policy.Selector, p.Pool),
		}}, again
	}
	if len(p.assigned.members) > 0 {
		return nil, again
	}
	moving, again := makesProgress(p)
	if moving {
		return nil, again
	}
	if b, closed := nodeGatesBlock(p); closed {
		return []poolstate.Block{b}, again
	}
	unavailable := poolstate.Filter(p.nodes.Occupying, func(m *poolstate.Member) bool {
		return s.policy.Selector == nil || m.Canary
	})
	if len(unavailable) > 0 {
		return []poolstate.Block{{Cause: poolstate.CauseStep, Reason: stepText(s) + ": " +
			poolstate.Describe(unavailable,
				stableWording(p.evaluation).State)}}, again
	}
	return nil, again
}

func stepText(s step) string {
	kind := ""
	if s.Canary {
		kind = " (canary)"
	}
	return fmt.Sprintf("step %d of %d%s: %d of %d nodes healthy", s.Step+1, s.Of, kind, max(0, s.Healthy), s.Want)
}

// gateKinds selects gates.
type gateKinds bool

const (
	// They delay every node.
	queries gateKinds = false
	// the queries, and the jobs at the end of a step
	anyGate gateKinds = true
)

// closedGate finds the first gate that is not open, or has no answer.
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

// answerOf returns the worst answer, because policies may use a name twice.
func answerOf(gates []poolstate.Gate, name string) poolstate.Gate {
	var worst poolstate.Gate
	for _, g := range gates {
		if g.Name == name && (worst.Verdict == "" || worst.Verdict == poolstate.GateOpen) {
			worst = g
		}
	}
	return worst
}

// nodeGatesBlock names updated nodes whose own gates are closed, or that have not been Ready for long enough.
func nodeGatesBlock(p plan) (b poolstate.Block, closed bool) {
	b.Cause, b.Closed = poolstate.CauseGate, closedNodeGates(p)
	var texts []string
	for _, g := range b.Closed {
		texts = append(texts, g.Node+": "+g.Why)
	}
	if more := p.nodes.Total.Gated - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	if s := p.capacity.settling; s.nodes > 0 {
		who := strings.Join(s.names, ", ")
		if more := s.nodes - len(s.names); more > 0 {
			who += fmt.Sprintf(" and %d more", more)
		}
		has := "has"
		if s.nodes > 1 {
			has = "have"
		}
		texts = append(texts, fmt.Sprintf("%s %s to stay Ready until %s", who, has,
			poolstate.FormatDeadline(s.until, s.required)))
		if len(b.Closed) == 0 { // Only time is missing.
			b.Cause, b.Until = poolstate.CauseSoak, s.until
		}
	}
	b.Reason = strings.Join(texts, "; ")
	return b, len(texts) > 0
}

// closedNodeGates are the first of updated nodes.
func closedNodeGates(p plan) (closed []v1alpha1.ClosedGate) {
	for _, m := range p.nodes.Occupying {
		if m.Gated && len(closed) < poolstate.MaxNamed {
			closed = append(closed, v1alpha1.ClosedGate{Node: m.Name, Why: m.Gate})
		}
	}
	return closed
}

// unavailableCause is for a pool whose last nodes cannot be assigned the target.
func unavailableCause(p plan) poolstate.Cause {
	waits := func(is func(*poolstate.Member) bool) bool {
		return slices.ContainsFunc(p.nodes.Occupying, func(m *poolstate.Member) bool { return !m.Updated && is(m) })
	}
	switch {
	case p.nodes.Total.Failed > 0:
		return poolstate.CauseFailed
	case waits(func(m *poolstate.Member) bool { return m.Health.Silence != "" }):
		return poolstate.CauseNotReady
	case waits(func(m *poolstate.Member) bool { return m.Degraded() }):
		return poolstate.CauseFailed
	case waits(func(m *poolstate.Member) bool { return m.Cordon.Unschedulable }):
		return poolstate.CauseCordoned
	}
	return poolstate.CauseNotReady
}

// makesProgress reports whether a node changes its config, to the target or to an earlier one, within the normal time.
func makesProgress(p plan) (moving bool, again time.Time) {
	for _, m := range p.nodes.Occupying {
		if !m.Changing() || m.Failing() {
			continue
		}
		ended, wait := madeNoProgress(p, m)
		again = earliest(again, wait)
		if !ended {
			return true, again
		}
	}
	return false, again
}

// madeNoProgress reports whether a node that changes its config takes too long: no daemon has ever reported from it,
// its kubelet does not report, it is not Ready, its drain does not end, or it cannot get its secrets or files. In the
// first two cases, again is when it will have taken too long.
func madeNoProgress(p plan, m *poolstate.Member) (ended bool, again time.Time) {
	if m.State == "" && !m.Created.IsZero() {
		if age(p.now, m.Created) > slow {
			return true, again
		}
		again = m.Created.Add(slow + time.Second)
	}
	if m.Health.Trouble != "" && age(p.now, m.Health.Since) > slow || m.LacksSecrets(p.Secrets.Revisions) ||
		m.Node.LacksFiles() {
		return true, again
	}
	if m.Health.Silence != "" && !m.Step.Rebooting {
		if age(p.now, m.Health.Since) >= Flapping {
			return true, again
		}
		again = earliest(again, m.Health.Since.Add(Flapping))
	}
	return drainsSlowly(p, m), again
}

func drainsSlowly(p plan, m *poolstate.Member) bool {
	return m.Step.Draining && age(p.now, m.Step.DrainStarted) > slow
}

// blockers keep nodes from the target.
type blockers struct {
	// for every node, and for those that the target would disrupt
	stops, holds []poolstate.Block
	again        time.Time
}

// verdictBlock is for a halted or reverted rollout.
func verdictBlock(pool string, r v1alpha1.RolloutRecord) poolstate.Block {
	if r.Verdict == v1alpha1.RolloutReverted {
		return poolstate.Block{
			Cause: poolstate.CauseReverted,
			Reason: fmt.Sprintf("pool %s was reverted from %s to %s: %s", pool,
				r.Target(), r.ReturnsTo(), r.Why),
		}
	}
	return poolstate.Block{
		Cause:  poolstate.CauseHalted,
		Reason: fmt.Sprintf("the rollout of %s is halted: %s", r.Target(), r.Why),
	}
}
