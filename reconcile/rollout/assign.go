package rollout

import (
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// assignments are in order.
type assignments struct {
	members []*poolstate.Member
	// those that take a new place in the budget, and their number in each zone
	inService int
	zones     map[string]int
	again     time.Time
}

func (a assignments) has(m *poolstate.Member) bool { return slices.Contains(a.members, m) }

func (a assignments) set() map[*poolstate.Member]bool {
	set := make(map[*poolstate.Member]bool, len(a.members))
	for _, m := range a.members {
		set[m] = true
	}
	return set
}

// keepsQuorum reports whether a candidate has to stay in service for a quorum. One that runs the target need not wait:
// its assignment disrupts nothing.
func keepsQuorum(e evaluation, m *poolstate.Member) bool {
	return e.Care.Around.Quorum != "" && m.CountsForQuorum() && m.Candidate > poolstate.CandidateCurrent
}

// assign picks candidates up to the free capacity, those that take no new place in the budget first. The evaluation has
// only the ones that need not wait; see admit.
func assign(e evaluation, c capacity, s step) assignments {
	var a assignments
	a.members = append(a.members, e.nodes.Candidates[poolstate.CandidateCurrent]...)
	a, starts := assignFailed(e, c, a)
	for _, m := range e.nodes.Candidates[poolstate.CandidateChanging] {
		if !a.has(m) && s.lets(m, len(a.members)) {
			a.members = append(a.members, m)
		}
	}
	a, starts = assignNotReady(e, s, a, starts)
	degraded := min(starts, c.degraded)
	for _, m := range e.nodes.Candidates[poolstate.CandidateDegraded] {
		if degraded > 0 && s.lets(m, len(a.members)) {
			a.members = append(a.members, m)
			degraded--
		}
	}
	return assignInService(e, c, s, a)
}

// assignNotReady picks nodes that have been not Ready for too long, if the step allows them, and returns how many more
// nodes may start an update.
func assignNotReady(e evaluation, s step, a assignments, starts int) (assignments, int) {
	for _, m := range e.nodes.NotReady {
		if starts == 0 || a.has(m) {
			continue
		}
		// The arbiter counts at once, because the masters wait for it.
		gone := e.Pool == poolstate.ArbiterPool && !m.Changing()
		if !gone {
			late, again := isGone(e, m)
			gone, a.again = late, earliest(a.again, again)
		}
		if gone && s.lets(m, len(a.members)) {
			a.members = append(a.members, m)
			starts--
		}
	}
	return a, starts
}

// assignFailed picks nodes that are out of service, whatever the windows and steps, and returns how many more nodes may
// start an update.
func assignFailed(e evaluation, c capacity, a assignments) (_ assignments, starts int) {
	failed := e.nodes.Candidates[poolstate.CandidateFailed]
	failed = failed[:min(len(failed), c.starts)]
	a.members, starts = append(a.members, failed...), c.starts-len(failed)
	for _, m := range e.nodes.NotReady {
		lost, again := isLost(e, m)
		a.again = earliest(a.again, again)
		switch {
		case !lost:
		case m.Changing():
			a.members = append(a.members, m)
		case starts > 0:
			a.members = append(a.members, m)
			starts--
		}
	}
	return a, starts
}

// isLost reports whether a node has been not Ready for too long, and its config may be the cause, unless the whole pool
// was healthy with it.
func isLost(e evaluation, m *poolstate.Member) (lost bool, again time.Time) {
	if m.Health.Trouble == "" || !m.Changing() && m.Config.Current == e.record.LastHealthy() {
		return false, again
	}
	return isGone(e, m)
}

// isGone reports whether a node has been not Ready for longer than a reboot takes, and otherwise when it will have
// been. In a reverted pool it is gone at once, because the cause is known.
func isGone(e evaluation, m *poolstate.Member) (gone bool, again time.Time) {
	since := m.Health.Since
	if e.record.Verdict == v1alpha1.RolloutReverted || since.IsZero() || age(e.now, since) > slow {
		return true, again
	}
	return false, since.Add(slow + time.Second)
}

// assignInService picks nodes that take a new place, up to the free capacity.
func assignInService(e evaluation, c capacity, s step, a assignments) assignments {
	a.zones = map[string]int{}
	others := 0 // others counts candidates that could be assigned instead of the node on which the controller runs.
	for _, m := range e.nodes.Candidates[poolstate.CandidateInService] {
		if a.inService >= c.inService {
			return a
		}
		if !content(e).On(m) {
			continue
		}
		if !s.lets(m, len(a.members)) {
			if s.policy.Selector == nil {
				// Failed nodes, which every step allows, come first in the order, so no later candidate can be
				// assigned.
				return a
			}
			continue
		}
		if m.RunsController && others > 0 {
			return a // The nodes after this one in the order were already considered.
		}
		others++
		if c.zone(m.Zone) > a.zones[m.Zone] {
			a.members = append(a.members, m)
			a.inService++
			a.zones[m.Zone]++
		}
	}
	return a
}
