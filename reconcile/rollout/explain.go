package rollout

import (
	"cmp"
	"slices"
	"time"
)

// Explain says of every node that does not run the wave's target, and is not told it now, why; by name. w is what Next
// answered to the same facts at the same time. It walks all nodes and is for people.
func Explain(f Facts, w Wave, now time.Time) []Waiting {
	e := explain(f, w, now)
	if e.d.f.Target == "" {
		return nil
	}
	var out []Waiting
	for _, s := range e.d.m.seats {
		if s.kind&behind != 0 && !e.next[s.Name] {
			cause, reason := e.why(s)
			out = append(out, Waiting{Node: s.Name, Cause: cause, Reason: reason})
		}
	}
	slices.SortFunc(out, func(a, b Waiting) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// WhyNode says why one node does not run the wave's target; CauseNext where it is told right now. The zero Waiting: it does
// run it, or it is not of this pool.
func WhyNode(f Facts, w Wave, name string, now time.Time) Waiting {
	e := explain(f, w, now)
	s := e.d.m.seats[name]
	switch {
	case f.Target == "" || s == nil || s.kind&behind == 0:
		return Waiting{}
	case e.next[name]:
		return Waiting{Node: name, Cause: CauseNext, Reason: "it is the next to be told " + w.Target}
	}
	cause, reason := e.why(s)
	return Waiting{Node: name, Cause: cause, Reason: reason}
}

// explanation is a decision made again to be explained.
type explanation struct {
	d *decision
	words
	next, released map[string]bool
	// full is the text for a full budget; step for a step without room.
	full string
	step Block
}

func explain(f Facts, w Wave, now time.Time) explanation {
	d := decide(newMembers(f.Nodes), f, now)
	e := explanation{d: d, words: d.words(f.Timestamps), next: map[string]bool{}, released: map[string]bool{}}
	for _, a := range w.Assign {
		e.next[a.Node] = true
	}
	for _, r := range w.Release {
		e.released[r.Node] = true
	}
	e.full = e.budget()
	e.step = Block{Cause: CauseStep, Reason: notice{d}.stepText()}
	if b := (notice{d}).stepBlocks(); len(b) > 0 {
		e.step = b[0]
	}
	return e
}

// why says why a node that is not told anything does not run the target.
func (e explanation) why(s *seat) (Cause, string) {
	n := &s.Node
	switch {
	case s.kind&failedThis != 0:
		return CauseFailed, e.doing(n)
	case e.released[n.Name]:
		return CauseDrain, "its drain is postponed: its pods cannot be evicted, and other nodes go first"
	case s.kind&told != 0 && n.Health.Silence != "" && !n.Step.Rebooting && !n.Degraded():
		return CauseNotReady, e.doing(n)
	case s.kind&told != 0, n.Config.Current != n.Config.Desired && !n.Failing():
		return CauseUpdating, e.doing(n)
	case len(e.d.stop) > 0:
		return e.d.stop[0].Cause, e.d.stop[0].Reason
	case s.kind&toLabel != 0:
		if !n.Checked {
			return CauseLabels, "it says that it booted with " + n.Booted + "; the controller first reads for which pool the server let it in"
		}
		return CauseLabels, "the server let it in for pool " + n.Attested + ", and it is labelled for that pool first"
	case n.Cordon.ByAdministrator():
		return CauseCordoned, "cordoned, not by Bunsen; it updates once it is uncordoned"
	case s.kind&broken != 0:
		return CauseBudget, e.full
	case n.Cordon.Unschedulable:
		return CauseCordoned, e.doing(n)
	case n.Health.Trouble != "":
		return CauseNotReady, n.Health.Text(e.since(n.Health.Since))
	}
	return e.fresh(s)
}

// fresh says why a node that could be told is not.
func (e explanation) fresh(s *seat) (Cause, string) {
	d := e.d
	switch {
	case len(d.hold) > 0:
		return d.hold[0].Cause, d.hold[0].Reason
	case !d.stage.lets(s, len(d.picked.seats)):
		return e.step.Cause, e.step.Reason
	case !s.late.IsZero():
		return CauseDrain, "its drain was postponed; it goes last"
	case s.host && d.picked.fresh > 0:
		return CauseHost, "the controller runs on it, so it is told last"
	case d.f.Care.Around.Quorum != "":
		return CauseAfterPool, d.f.Care.Around.Quorum
	}
	for _, t := range d.f.Care.Around.Together {
		if left(t, d.budget.used+d.picked.fresh) <= 0 {
			return CauseTogether, e.together(t)
		}
	}
	if d.budget.used+d.picked.fresh < d.budget.max && d.zoneRoom(s.zone) <= d.picked.zones[s.zone] {
		return CauseBudget, e.zone(s)
	}
	return CauseBudget, e.full
}
