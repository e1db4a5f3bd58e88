package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

type step struct {
	poolstate.Stage
	// in the policy
	policy schedule.Step
	// The step limits which nodes are assigned; otherwise only the budget does.
	limited bool
	// when the nodes of the step will have been healthy for long enough; zero while they are not healthy
	soaked time.Time
	// with the number of completed steps
	record v1alpha1.RolloutRecord
	again  time.Time
}

// countAbsent counts the nodes that were assigned the target and cannot try it, for other reasons. Others are assigned
// it in their place.
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

// lets reports whether the step allows the assignment of a node, after others of this decision. Nodes that failed
// another config do not wait for a step.
func (s step) lets(m *poolstate.Member, others int) bool {
	switch {
	case !s.limited || m.Failing():
		return true
	case s.policy.Selector != nil:
		return m.Canary
	}
	return s.Assigned+others < s.Want
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

// postponeDrains postpones the drains that take too long, if other nodes can be updated instead.
func postponeDrains(e evaluation, c capacity, s step, a assignments) (released []poolstate.Release, again time.Time) {
	policy, target := e.Care.Pace.Drain, e.nodes.Target
	if policy.WhenBlocked != v1alpha1.DrainMoveOn || policy.After <= 0 {
		return nil, again
	}
	var late []*poolstate.Member
	for _, m := range e.nodes.Occupying {
		if !m.Assigned || !m.Step.Draining || m.Step.DrainStarted.IsZero() || m.Config.Current.IsZero() ||
			m.Config.Current == target {
			continue
		}
		if due := m.Step.DrainStarted.Add(policy.After); e.now.Before(due) {
			again = earliest(again, due)
		} else {
			late = append(late, m)
		}
	}
	slices.SortFunc(late, func(a, b *poolstate.Member) int {
		return cmp.Or(a.Step.DrainStarted.Compare(b.Step.DrainStarted), strings.Compare(a.Name, b.Name))
	})
	if len(late) == 0 {
		return nil, again
	}
	spare, used := findSpare(e, c, s, a), c.used
	for _, m := range late {
		if used-m.Places() >= c.max || !spare.replace(m.Zone) {
			continue // No other node would get the place in the budget.
		}
		used -= m.Places()
		released = append(released, poolstate.Release{
			Node: m.Name, Config: e.Care.NodeConfigs.Own(m.Config.Current, m.Name),
			Postponed: poolstate.Postponed{For: target, At: e.now.Truncate(time.Second)}.String(),
			Drains:    m.Drains.Add(target, m.Step.DrainStarted).String(),
		})
	}
	return released, again
}

// spare are the candidates that remain after a decision, and the free places for them, by zone.
type spare struct {
	zones       []string
	nodes, room map[string]int
}

// findSpare counts the candidates that the step allows in place of another node.
func findSpare(e evaluation, c capacity, s step, a assignments) spare {
	p, assigned := spare{nodes: map[string]int{}, room: map[string]int{}}, a.set()
	for _, m := range e.nodes.Candidates[poolstate.CandidateInService] {
		if assigned[m] || s.policy.Selector != nil && !m.Canary || !content(e).On(m) {
			continue
		}
		if p.nodes[m.Zone]++; p.nodes[m.Zone] == 1 {
			p.zones = append(p.zones, m.Zone)
			p.room[m.Zone] = c.zone(m.Zone) - a.zones[m.Zone]
		}
	}
	return p
}

// replace uses one candidate for the place of a node in a zone, preferably one of it, because that place becomes free.
func (p spare) replace(zone string) bool {
	if p.nodes[zone] > 0 {
		p.nodes[zone]--
		return true
	}
	for _, other := range p.zones {
		if p.nodes[other] > 0 && p.room[other] > 0 {
			p.nodes[other]--
			p.room[other]--
			return true
		}
	}
	return false
}
