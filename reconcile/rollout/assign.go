package rollout

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"k8s.io/apimachinery/pkg/util/intstr"
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

// capacity is for further assignments of the target.
type capacity struct {
	// the places in the pool's budget, and those that are taken
	max, used int
	// nodes that need a new place, by all budgets of the pool
	inService int
	// nodes out of service that may start an update, and of those the ones of CandidateDegraded
	starts, degraded int
	// nil for no limit; zones has what remains in each
	perZone  *intstr.IntOrString
	zones    map[string]int
	settling settling
	// limits that cannot be parsed
	invalid []poolstate.Block
	again   time.Time
}

func measure(e evaluation) capacity {
	pace, nodes := e.Care.Pace, e.nodes.Total.Nodes
	c := capacity{max: e.MaxUnavailable, perZone: pace.PerZone, settling: findSettling(e)}
	c.again = c.settling.again
	if pace.MaxUnavailable != nil {
		own, err := poolstate.MaxUnavailable(e.Pool, pace.MaxUnavailable, nodes)
		if err != nil {
			c.invalid = append(c.invalid, poolstate.Block{Cause: poolstate.CauseInvalid, Reason: err.Error()})
		}
		c.max = own
	}
	if pace.PerZone != nil {
		if _, err := poolstate.ScaleLimit(pace.PerZone, nodes); err != nil {
			c.invalid = append(c.invalid,
				poolstate.Block{
					Cause: poolstate.CauseInvalid,
					Reason: fmt.Sprintf("reading maxUnavailablePerZone %q for pool %s: %v",
						pace.PerZone, e.Pool, err),
				})
		}
	}
	c.used = counts(e, c.settling).Places
	// max first: the difference of the least integer and a positive number overflows.
	limit := max(0, c.max)
	c.inService = max(0, limit-c.used)
	c.starts = max(0, limit-e.nodes.AtWork)
	c.degraded = max(0, limit-c.used+len(e.nodes.Candidates[poolstate.CandidateDegraded]))
	c = shareWithOthers(c, e)
	return limitZones(c, e)
}

// shareWithOthers subtracts the places of other pools. No event of this pool reports that they have changed.
func shareWithOthers(c capacity, e evaluation) capacity {
	full := false
	for _, t := range e.Care.Around.Together {
		c.inService = max(0, min(c.inService, t.Left(c.used)))
		full = full || t.Left(c.used) <= 0
	}
	if (full || e.Care.Around.Quorum != "") && e.nodes.Total.Behind > 0 {
		c.again = earliest(c.again, e.now.Add(recheckNodes))
	}
	return c
}

func limitZones(c capacity, e evaluation) capacity {
	if c.perZone == nil {
		return c
	}
	c.zones = make(map[string]int, len(e.nodes.Zones))
	all := 0
	for name, z := range e.nodes.Zones {
		if n, err := poolstate.ScaleLimit(c.perZone, z.Nodes); err == nil {
			c.zones[name] = max(0, max(0, n)-z.Places-c.settling.zones[name])
		}
		all += c.zones[name]
	}
	c.inService = min(c.inService, all)
	return c
}

// zone is for nodes that need a new place.
func (c capacity) zone(name string) int {
	if c.perZone == nil {
		return math.MaxInt
	}
	return c.zones[name]
}

// counts returns the pool's numbers. A node whose failure is forgiven takes only one place in the budget. One that has
// not been Ready for long enough keeps its place.
func counts(e evaluation, s settling) poolstate.Counts {
	c := e.nodes.Counts
	c.Places += s.nodes
	for _, name := range e.record.Forgiven {
		if m := e.nodes.ByName(name); m != nil && m.Failed && m.Unavailable() {
			c.Places--
		}
	}
	return c
}

// settling nodes have not been Ready for as long as a gate requires.
type settling struct {
	nodes, canaries int
	// the first ones
	names []string
	zones map[string]int
	// the last of the nodes has been Ready long enough
	until    time.Time
	required time.Duration
	again    time.Time
}

func findSettling(e evaluation) settling {
	s := settling{zones: map[string]int{}}
	for _, g := range e.Care.Pace.Gates {
		if g.Ready != nil {
			s.required = max(s.required, g.Ready.For.Duration)
		}
	}
	if s.required == 0 {
		return s
	}
	for _, m := range e.nodes.All {
		since := m.Health.ReadySince
		if !m.Healthy || since.IsZero() || age(e.now, since) >= s.required {
			continue
		}
		if s.nodes++; len(s.names) < poolstate.MaxNamed {
			s.names = append(s.names, m.Name)
		}
		s.zones[m.Zone]++
		if m.Canary {
			s.canaries++
		}
		until := since.Add(s.required)
		s.again = earliest(s.again, until)
		if until.After(s.until) {
			s.until = until
		}
	}
	return s
}
