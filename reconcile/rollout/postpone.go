package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

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
