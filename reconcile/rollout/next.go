package rollout

import (
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Next decides what a pool's nodes are told now. It tells nobody anything while the pool is paused or has no target.
//
// A node that is told takes a place in the budget until it is done. One that is out of service already, because it failed
// another config or is on its way to one, takes no new place, so it can be told at once; no more than MaxUnavailable nodes
// are at work at a time.
func Next(f Facts, now time.Time) Wave { return newMembers(f.Nodes).Next(f, now) }

// Next decides as the function of that name does, for these nodes instead of Facts.Nodes.
func (m *Members) Next(f Facts, now time.Time) Wave { return decide(m, f, now).wave() }

// Count counts the nodes of a pool as a decision would.
func (m *Members) Count(f Facts, now time.Time) Counts { return decide(m, f, now).counts() }

// decision is a Wave in the making: each step of decide adds what it is about, and reads what the steps before it found.
type decision struct {
	f   Facts
	m   *Members
	now time.Time
	// record is what is remembered from now on; target follows from it.
	record v1alpha1.RolloutRecord
	target string
	budget budget
	stage  stage
	// stop keeps everybody from being told anything; hold only those whom it would disturb.
	stop, hold []Block
	picked     picked
	release    []Release
	// again is when the decision may come out otherwise though nothing happens; zero: never.
	again time.Time
}

// decide is the whole order of things.
func decide(m *Members, f Facts, now time.Time) *decision {
	d := &decision{f: f, m: m, now: now, record: f.Care.Record}
	if f.Target == "" {
		m.look(lens{})
		return d
	}
	d.remember()
	d.look(f.Target)
	court{d}.sentence()
	d.look(d.target)
	accounts{d}.measure()
	course{d}.advance()
	hurdles{d}.stops()
	hurdles{d}.holds()
	choice{d}.pick()
	choice{d}.note()
	choice{d}.moveOn()
	return d
}

// look sorts the members out for what they are to be told.
func (d *decision) look(target string) {
	if d.record.Verdict == v1alpha1.RolloutReverted {
		target = d.record.Back
	}
	d.target = target
	l := lens{target: target, goal: d.f.Target, host: d.f.Host}
	if d.f.Pool == workerPool {
		l.customs = d.f.Care.Around.Customs
	}
	for _, s := range d.f.Care.Pace.Steps {
		if s.Selector != nil {
			l.canary = s.Selector
			break
		}
	}
	d.m.look(l)
}

// counts are the pool's numbers.
func (d *decision) counts() Counts {
	return d.m.tally.counts(d.m.Len(), d.budget.young.held-d.lenience())
}

// wakeAt sees to it that the next decision is not later.
func (d *decision) wakeAt(t time.Time) {
	if d.again.IsZero() || t.Before(d.again) {
		d.again = t
	}
}

const (
	// soon is how long a Wave holds at least: a moment can pass twice within the precision of a clock.
	soon = time.Second
	// askAgain is how long it holds while a job or a query is waited for.
	askAgain = 15 * time.Second
	// lookAgain is how long it holds while a node is at work: an event can be lost.
	lookAgain = time.Minute
	// seldom is how long it holds at most where something is waited for: a clock can be set.
	seldom = 10 * time.Minute
)

// wave is the decision as others see it.
func (d *decision) wave() Wave {
	w := Wave{Record: d.record, Target: d.target, Counts: d.counts(), Stage: d.stage.Stage, Release: d.release}
	if d.f.Target == "" {
		w.Blocks = d.unreadable()
		return w
	}
	for _, s := range d.picked.seats {
		w.Assign = append(w.Assign, Assignment{
			Node: s.Name, Config: d.target, Was: s.Config.Desired, DropImage: s.Config.DesiredImage != "", Untaint: s.Tainted,
			Recovery: s.Failing() && s.kind&fresh == 0,
		})
	}
	d.mark(&w)
	w.Blocks = notice{d}.blocks()
	if d.m.tally.of(busy) > 0 || len(w.Assign) > 0 {
		d.wakeAt(d.now.Add(lookAgain))
	}
	if !d.again.IsZero() {
		w.LookAgain = min(max(d.again.Sub(d.now), soon), seldom)
	}
	w.Past = pastOutcome(d) // last, for it looks at the members through the config before
	return w
}

// mark puts taints and labels on the nodes that are not told anything; a paused pool gets no new ones.
func (d *decision) mark(w *Wave) {
	for _, s := range d.m.in(toUntaint) {
		w.Untaint = append(w.Untaint, s.Name)
	}
	if d.f.Paused || d.f.Care.Invalid != "" {
		return
	}
	for _, s := range d.m.in(toLabel) {
		if c := s.toCustom(d.f.Care.Around.Customs); c != nil {
			w.Label = append(w.Label, Label{Node: s.Name, Labels: c.Labels})
			continue
		}
		w.Label = append(w.Label, Label{Node: s.Name, Attest: true})
	}
	if n := len(d.m.in(toTaint)) - len(d.picked.seats); n > 0 {
		w.Taint = make([]string, 0, n)
	}
	for _, s := range d.m.in(toTaint) {
		if !d.picked.has[s] && !s.toCheck(d.f.Care.Around.Customs) { // one write of a wave to a node
			w.Taint = append(w.Taint, s.Name)
		}
	}
}
