package rollout

import (
	"time"

	"github.com/bunsen-os/bunsen/policy/pace"
)

// stage is the step under way.
type stage struct {
	Stage
	step pace.Step
	// limited: the step says who may be told; otherwise only the budget does.
	limited bool
	// soaked is when its nodes will have been well for long enough; zero while they are not well.
	soaked time.Time
}

// course is a decision that goes through the steps.
type course struct{ *decision }

// advance finds the step under way, and goes on to the next one where it is over: its nodes run the target and are well,
// have been so for the soak, and the jobs and queries say yes. At most one step ends at a time, since what a job said of one
// is nothing about the next.
func (d course) advance() {
	r, steps := &d.record, d.f.Care.Pace.Steps
	d.enter(min(r.Steps, len(steps)))
	if !d.stage.limited {
		r.WellSince = nil
		return
	}
	if d.stage.Well < d.stage.Want || d.stage.Want == 0 {
		r.WellSince = nil
		return
	}
	if r.WellSince == nil || r.WellSince.After(d.now.Add(time.Second)) { // the latter: the clock was set back
		r.WellSince = stampUp(d.now)
	}
	d.stage.soaked = r.WellSince.Add(d.stage.step.Soak)
	if d.now.Before(d.stage.soaked) && d.stage.step.Soak > 0 {
		d.wakeAt(d.stage.soaked)
		return
	}
	d.stage.Due = true
	if _, closed := d.closedGate(anyGate); closed {
		d.wakeAt(d.now.Add(askAgain))
		return
	}
	r.Steps, r.WellSince = d.stage.Step+1, nil
	d.enter(r.Steps)
	d.wakeAt(d.now.Add(soon))
}

// enter looks at one step. A pool that is past its steps, goes back, or takes what it ran last has none.
func (d course) enter(step int) {
	steps := d.f.Care.Pace.Steps
	s := stage{Stage: Stage{Step: step, Of: len(steps), Want: d.m.Len(), Told: d.m.tally.of(told), Well: d.m.tally.of(well) - d.budget.young.held}}
	if step < len(steps) && d.record.Verdict == "" && !d.settled() {
		s.step, s.limited = steps[step], true
		s.Canary = s.step.Canary
		s.Want = min(s.step.Size(d.m.Len()), d.m.Len())
		s.Told -= d.m.tally.of(failedThis) + d.absent() // as many as the policy lets fail are made up for by others
		if s.step.Selector != nil {
			s.Want, s.Told = d.m.tally.of(canary), d.m.tally.of(canaryTold)
			s.Well = d.m.tally.of(canaryWell) - d.budget.young.canaries
		}
	} else {
		s.Step = len(steps)
	}
	d.stage = s
}

// absent counts the nodes that were told the target and try it out for nobody, through no fault of it: others are told in
// their place.
func (d course) absent() (n int) {
	for _, s := range d.m.in(out) {
		if s.kind&told == 0 || s.kind&(unavailable|failedThis) != unavailable {
			continue
		}
		before := s.Health.Trouble != "" && (d.wasAway(s) || !court(d).lostSince(s))
		dead := before && age(d.now, s.Health.Since) > slow
		if before && !dead {
			d.wakeAt(s.Health.Since.Add(slow + time.Second))
		}
		if dead || s.Cordon.ByAdministrator() && s.kind&busy == 0 {
			n++
		}
	}
	return n
}

// lets tells whether the step lets a node be told after more nodes were. Nodes that failed another config need not wait for
// anybody.
func (s *stage) lets(x *seat, more int) bool {
	switch {
	case !s.limited || x.Failing():
		return true
	case s.step.Selector != nil:
		return x.kind&canary != 0
	}
	return s.Told+more < s.Want
}

// which gates of a pool are asked about.
type which bool

const (
	// queries hold every node back.
	queries which = false
	// anyGate: queries, and the jobs that end a step.
	anyGate which = true
)

// closedGate finds the first gate of the pool that is not open. One that was not asked yet is not.
func (d *decision) closedGate(w which) (Block, bool) {
	block := func(name, why string) (Block, bool) {
		return Block{Cause: CauseGate, Reason: "gate " + name + ": " + why}, true
	}
	for _, g := range d.f.Care.Pace.Gates {
		if g.Prometheus == nil && (g.Job == nil || w == queries) {
			continue
		}
		switch a := answer(d.f.Care.Gates, g.Name); a.Verdict {
		case GateOpen:
		case "":
			return block(g.Name, "not asked yet")
		default:
			return block(g.Name, a.Why)
		}
	}
	return Block{}, false
}

// answer is the worst one that was given to gates of a name; policies may use a name twice.
func answer(gates []Gate, name string) Gate {
	var worst Gate
	for _, g := range gates {
		if g.Name == name && (worst.Verdict == "" || worst.Verdict == GateOpen) {
			worst = g
		}
	}
	return worst
}
