package rollout

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// MaxUnavailable reads a pool's maxUnavailable for a pool of that many nodes. Absent means 1; a percentage is of the
// pool's size, rounded down; 0 means 1, so that a small pool moves at all; a negative value stays, and stops the pool.
// The arbiter pool's is always 1.
func MaxUnavailable(pool string, want *intstr.IntOrString, nodes int) (int, error) {
	if want == nil || pool == arbiterPool {
		return 1, nil
	}
	n, err := most(want, nodes)
	if err != nil {
		return 0, fmt.Errorf("reading maxUnavailable %q of MachineConfigPool %q: %w; write a number such as 2, or a percentage such as \"10%%\"", want.String(), pool, err)
	}
	return n, nil
}

// most reads a limit as a pool's maxUnavailable is read.
func most(want *intstr.IntOrString, nodes int) (int, error) {
	n, err := intstr.GetScaledValueFromIntOrPercent(want, nodes, false)
	if err == nil && n == 0 {
		n = 1
	}
	return n, err
}

// budget is how many places there are, and who takes them.
type budget struct {
	// max places are the pool's, used ones are taken.
	max, used int
	// room is how many nodes may still be told that take a place: what all budgets that the pool is in leave.
	room int
	// work is how many nodes that are out of service already may be set to work; mend how many of the ailing ones, which serve
	// pods until then.
	work, mend int
	// zone is a limit for each zone; nil: none. zones is how much room each of them leaves then.
	zone  *intstr.IntOrString
	zones map[*zone]int
	young young
}

// young are the updated nodes that have not been Ready for as long as a gate asks.
type young struct {
	held, canaries int
	zones          map[*zone]int
	// until is when the last one is old enough.
	until time.Time
	// span is how long they have to be.
	span time.Duration
}

// accounts is a decision that counts places.
type accounts struct{ *decision }

// measure finds out how much room there is.
func (d accounts) measure() {
	b, pace := &d.budget, d.f.Care.Pace
	b.young = d.settling()
	b.max, b.zone = d.f.MaxUnavailable, pace.PerZone
	if pace.MaxUnavailable != nil {
		own, err := MaxUnavailable(d.f.Pool, pace.MaxUnavailable, d.m.Len())
		if err != nil {
			d.stop = append(d.stop, Block{Cause: CauseInvalid, Reason: err.Error()})
		}
		b.max = own
	}
	if pace.PerZone != nil {
		if _, err := most(pace.PerZone, d.m.Len()); err != nil {
			d.stop = append(d.stop, Block{Cause: CauseInvalid, Reason: fmt.Sprintf("reading maxUnavailablePerZone %q for pool %s: %v", pace.PerZone, d.f.Pool, err)})
		}
	}
	b.used = d.counts().Places
	limit := max(0, b.max) // before the differences: below the least number there is comes the greatest
	b.room = max(0, limit-b.used)
	b.work = max(0, limit-d.m.tally.of(atWork))
	b.mend = max(0, limit-b.used+d.m.tally.of(ailing))
	d.measureOthers()
	d.measureZones()
}

// measureOthers finds out how much room other pools leave. No event of this pool tells when that changes.
func (d accounts) measureOthers() {
	b, full := &d.budget, false
	for _, t := range d.f.Care.Around.Together {
		b.room = max(0, min(b.room, left(t, b.used)))
		full = full || left(t, b.used) <= 0
	}
	if d.f.Care.Around.Quorum != "" {
		b.room, b.mend, full = 0, 0, true
	}
	if full && d.m.tally.of(behind) > 0 {
		d.wakeAt(d.now.Add(lookAgain))
	}
}

// measureZones finds out how much room each zone has.
func (d accounts) measureZones() {
	b := &d.budget
	if b.zone == nil {
		return
	}
	b.zones = make(map[*zone]int, len(d.m.zones))
	all := 0
	for _, z := range d.m.zones {
		if n, err := most(b.zone, z.nodes); err == nil {
			b.zones[z] = max(0, max(0, n)-z.places-b.young.zones[z])
		}
		all += b.zones[z]
	}
	b.room = min(b.room, all)
}

// lenience is how many places forgiven nodes take twice: for being out of service, and for a failure that does not count.
func (d *decision) lenience() int {
	n := 0
	for _, name := range d.record.Forgiven {
		if s := d.m.seats[name]; s != nil && s.kind&failedThis != 0 && s.kind&unavailable != 0 {
			n++
		}
	}
	return n
}

// left is what a shared budget leaves to a pool that uses some of it; it may be negative.
func left(t Shared, used int) int { return max(0, t.Max) - t.Used - used }

// zoneRoom is how many nodes of a zone may still be told that take a place.
func (d *decision) zoneRoom(z *zone) int {
	if d.budget.zone == nil {
		return math.MaxInt
	}
	return d.budget.zones[z]
}

// settling finds the nodes that were not Ready for long enough.
func (d accounts) settling() young {
	y := young{zones: map[*zone]int{}}
	var least time.Duration
	for _, g := range d.f.Care.Pace.Gates {
		if g.Ready != nil {
			least = max(least, g.Ready.For.Duration)
		}
	}
	if y.span = least; least == 0 {
		return y
	}
	for _, s := range d.m.in(well) {
		since := s.Health.ReadySince
		if since.IsZero() || age(d.now, since) >= least {
			break // all others are older
		}
		y.held++
		y.zones[s.zone]++
		if s.kind&canary != 0 {
			y.canaries++
		}
		until := since.Add(least)
		d.wakeAt(until)
		if until.After(y.until) {
			y.until = until
		}
	}
	return y
}
