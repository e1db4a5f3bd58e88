package rollout

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

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
