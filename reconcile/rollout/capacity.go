package rollout

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// capacity is how many more nodes may be assigned the target.
type capacity struct {
	// max is the number of places in the pool's budget. used is how many of these places are taken.
	max, used int
	// inService is how many nodes that need a new place may be assigned the target, by all budgets of the pool.
	inService int
	// starts is how many nodes that are out of service may start an update. degraded is how many nodes of
	// CandidateDegraded may start an update.
	starts, degraded int
	// perZone is the limit for each zone; nil for no limit. zones has the remaining number for each zone.
	perZone  *intstr.IntOrString
	zones    map[string]int
	settling settling
	// invalid has the limits that cannot be parsed.
	invalid []poolstate.Block
	again   time.Time
}

// measure returns how many more nodes the budgets allow.
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
	// max comes first, because the difference of the least integer and a positive number overflows.
	limit := max(0, c.max)
	c.inService = max(0, limit-c.used)
	c.starts = max(0, limit-e.nodes.AtWork)
	c.degraded = max(0, limit-c.used+len(e.nodes.Candidates[poolstate.CandidateDegraded]))
	c = shareWithOthers(c, e)
	return limitZones(c, e)
}

// shareWithOthers subtracts the places that other pools use. No event of this pool reports that another pool has taken
// or freed a place.
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

// limitZones adds how many nodes of each zone may be assigned the target now.
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

// zone returns how many nodes of a zone may be assigned the target if they need a new place.
func (c capacity) zone(name string) int {
	if c.perZone == nil {
		return math.MaxInt
	}
	return c.zones[name]
}

// counts returns the pool's numbers. A node whose failure is forgiven takes only one place in the budget. A node that
// has not been Ready for long enough keeps its place.
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

// settling counts the updated nodes that have not been Ready for as long as a gate requires.
type settling struct {
	nodes, canaries int
	// names has the first nodes.
	names []string
	zones map[string]int
	// until is when the last of the nodes has been Ready for the required duration.
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
