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
