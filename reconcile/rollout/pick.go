package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// picked are the nodes of one wave, in the order in which they are told.
type picked struct {
	seats []*seat
	has   map[*seat]bool
	// fresh is how many of them take a new place, zones how many in each zone.
	fresh int
	zones map[*zone]int
}

func (p *picked) take(s *seat) {
	if p.has == nil {
		p.has = map[*seat]bool{}
	}
	p.seats, p.has[s] = append(p.seats, s), true
	if s.kind&fresh != 0 {
		p.fresh++
		if p.zones == nil {
			p.zones = map[*zone]int{}
		}
		p.zones[s.zone]++
	}
}

// choice is a decision that finds the nodes to tell.
type choice struct{ *decision }

// pick takes from the candidates as many as there is room for: first those that cost nothing.
func (d choice) pick() {
	if len(d.stop) > 0 {
		return
	}
	p := &d.picked
	for _, s := range d.m.in(home) {
		p.take(s)
	}
	work := d.heal()
	if len(d.hold) > 0 {
		return
	}
	for _, s := range d.m.in(turning) {
		if !p.has[s] && d.stage.lets(s, len(p.seats)) {
			p.take(s)
		}
	}
	for _, s := range d.m.in(lost) {
		arbiter := d.f.Pool == arbiterPool && s.kind&busy == 0 // the masters wait for it
		if work > 0 && !p.has[s] && (arbiter || d.gone(s)) && d.stage.lets(s, len(p.seats)) {
			p.take(s)
			work--
		}
	}
	mend := min(work, d.budget.mend)
	for _, s := range d.m.in(ailing) {
		if mend > 0 && d.stage.lets(s, len(p.seats)) {
			p.take(s)
			mend--
		}
	}
	d.pickFresh()
}

// heal takes those that are out of service already, and lets neither windows nor steps keep them so. It returns how many
// more may be set to work.
func (d choice) heal() (work int) {
	p, work := &d.picked, d.budget.work
	for _, s := range d.m.in(broken) {
		if work > 0 {
			p.take(s)
			work--
		}
	}
	for _, s := range d.m.in(lost) {
		switch {
		case !d.suspect(s) || !d.gone(s):
		case s.kind&atWork != 0:
			p.take(s)
		case work > 0:
			p.take(s)
			work--
		}
	}
	return work
}

// suspect tells that a lost node may be so for what it runs, or is on its way to. What the whole pool was well with last is
// not to blame.
func (d choice) suspect(s *seat) bool {
	return s.kind&busy != 0 || s.Config.Current != d.record.Healthy
}

// gone tells that a lost node is not just away for a moment, as for a reboot. In a pool that goes back it is known what ails
// a node.
func (d choice) gone(s *seat) bool {
	since := s.Health.Since
	if d.record.Verdict == v1alpha1.RolloutReverted || since.IsZero() || age(d.now, since) > slow {
		return true
	}
	d.wakeAt(since.Add(slow + time.Second))
	return false
}

// pickFresh takes those that are in service, as far as there is room.
func (d choice) pickFresh() {
	p := &d.picked
	others := 0 // fresh candidates that could be told instead of the controller's own node
	for _, s := range d.m.in(fresh) {
		if p.fresh >= d.budget.room {
			return
		}
		if !d.stage.lets(s, len(p.seats)) {
			if d.stage.step.Selector == nil {
				return // the broken ones, whom it always lets, were first
			}
			continue
		}
		if s.host && others > 0 {
			return // those after it had their turn already
		}
		others++
		if d.zoneRoom(s.zone) > p.zones[s.zone] {
			p.take(s)
		}
	}
}

// note remembers who complains already, or is not Ready, when it is told, where that could be taken for a failure of the
// target. A complaint that names another config cannot.
func (d choice) note() {
	if d.f.Care.Pace.Failures.After < 1 || d.target != d.f.Target {
		return
	}
	var names []string
	for _, s := range d.picked.seats {
		switch {
		case s.Failing() && s.kind&home == 0 && !s.blames(d.target):
			names = append(names, s.Name)
		case s.Health.Trouble != "":
			names = append(names, s.Name+away)
		}
	}
	court(d).forgive(names)
}

// moveOn gives up the drains that have taken too long, as far as there are nodes that could be told instead.
func (d choice) moveOn() {
	policy := d.f.Care.Pace.Drain
	if policy.WhenBlocked != v1alpha1.DrainMoveOn || policy.After <= 0 || len(d.stop)+len(d.hold) > 0 {
		return
	}
	var late []*seat
	for _, s := range d.m.in(out) {
		if s.kind&told == 0 || !s.Step.Draining || s.Step.DrainStarted.IsZero() || s.Config.Current == "" || s.Config.Current == d.target {
			continue
		}
		if due := s.Step.DrainStarted.Add(policy.After); d.now.Before(due) {
			d.wakeAt(due)
		} else {
			late = append(late, s)
		}
	}
	slices.SortFunc(late, func(a, b *seat) int {
		return cmp.Or(a.Step.DrainStarted.Compare(b.Step.DrainStarted), strings.Compare(a.Name, b.Name))
	})
	spare, used := d.spare(), d.budget.used
	for _, s := range late {
		if used-s.kind.places() >= d.budget.max || !spare.instead(s.zone) {
			continue // its place would be nobody's
		}
		used -= s.kind.places()
		d.release = append(d.release, Release{
			Node: s.Name, Config: s.Config.Current, Postponed: Postponed{For: d.target, At: d.now.Truncate(time.Second)}.String(),
			Drains: s.Drains.postpone(d.target, s.Step.DrainStarted).String(),
		})
	}
}

// spare are the candidates that a wave leaves over, and the room that it leaves to them, zone by zone.
type spare struct {
	order       []*zone
	nodes, room map[*zone]int
}

// spare counts those that the step would let in place of another node.
func (d choice) spare() spare {
	p := spare{nodes: map[*zone]int{}, room: map[*zone]int{}}
	for _, s := range d.m.in(fresh) {
		if d.picked.has[s] || d.stage.step.Selector != nil && s.kind&canary == 0 {
			continue
		}
		if p.nodes[s.zone]++; p.nodes[s.zone] == 1 {
			p.order = append(p.order, s.zone)
			p.room[s.zone] = d.zoneRoom(s.zone) - d.picked.zones[s.zone]
		}
	}
	return p
}

// instead takes one of them for a node of a zone: from the same zone first, since the node's place there becomes free.
func (p *spare) instead(z *zone) bool {
	if p.nodes[z] > 0 {
		p.nodes[z]--
		return true
	}
	for _, other := range p.order {
		if p.nodes[other] > 0 && p.room[other] > 0 {
			p.nodes[other]--
			p.room[other]--
			return true
		}
	}
	return false
}
