package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// unreadable says what a person has to put right.
func (d *decision) unreadable() []Block {
	var blocks []Block
	if d.f.Care.Invalid != "" {
		blocks = append(blocks, Block{Cause: CauseInvalid, Reason: d.f.Care.Invalid})
	}
	if d.f.Care.Lost != "" {
		blocks = append(blocks, Block{Cause: CauseInvalid, Reason: d.f.Care.Lost})
	}
	return blocks
}

// hurdles is a decision that looks for what stands in the way.
type hurdles struct{ *decision }

// stops finds what keeps everybody from being told anything.
func (d hurdles) stops() {
	if d.f.Care.Invalid != "" {
		d.stop = append(d.stop, Block{Cause: CauseInvalid, Reason: d.f.Care.Invalid})
	}
	if d.f.Paused {
		d.stop = append(d.stop, Block{Cause: CausePaused, Reason: d.words(true).paused()})
	}
	if d.record.Verdict == v1alpha1.RolloutHalted {
		d.stop = append(d.stop, d.verdict())
	}
	if d.budget.max < 1 {
		d.stop = append(d.stop, Block{Cause: CauseBudget, Reason: d.words(true).budget()})
	}
}

// verdict says how the rollout ended before its time.
func (d *decision) verdict() Block {
	r := d.record
	if r.Verdict == v1alpha1.RolloutReverted {
		return Block{Cause: CauseReverted, Reason: fmt.Sprintf("pool %s was reverted from %s to %s: %s", d.f.Pool, r.Config, r.Back, r.Why)}
	}
	return Block{Cause: CauseHalted, Reason: fmt.Sprintf("the rollout of %s is halted: %s", r.Config, r.Why)}
}

// arbiterOut tells that the arbiter is out of service with what it has: then the masters wait for it, as they need it for
// their quorum, and not it for them.
func (d hurdles) arbiterOut() bool {
	return d.f.Pool == arbiterPool && (len(d.m.in(ailing)) > 0 || slices.ContainsFunc(d.m.in(lost), func(s *seat) bool { return s.kind&busy == 0 }))
}

// holds finds what keeps those from being told anything whom it would disturb: other pools, windows, queries.
func (d hurdles) holds() {
	if d.m.tally.of(behind) == 0 {
		return // there is nobody to hold
	}
	c := d.f.Care
	reverting := d.record.Verdict == v1alpha1.RolloutReverted
	if len(c.Around.Cycle) > 0 {
		d.hold = append(d.hold, Block{Cause: CauseInvalid, Reason: fmt.Sprintf("pools %s wait for each other; remove one of them from `after` of its RolloutPolicy",
			strings.Join(slices.Concat(c.Around.Cycle, c.Around.Cycle[:1]), ", "))})
	}
	if names := retried(d.record); len(names) > 0 {
		until := patientUntil(d.decision)
		d.hold = append(d.hold, Block{Cause: CauseFailed, Reason: d.words(true).retried(names, until), Until: until})
	}
	for _, a := range c.Around.Ahead {
		switch {
		case a.Done, reverting, a.Pool == masterPool && d.arbiterOut():
		case a.Missing: // nobody but a person ends that
			d.hold = append(d.hold, Block{Cause: CauseInvalid, Reason: fmt.Sprintf("`after` of RolloutPolicy %s names pool %s, which does not exist",
				strings.Join(c.Pace.Policies, ", "), a.Pool)})
		default:
			d.hold = append(d.hold, Block{Cause: CauseAfterPool, Reason: "pool " + a.Pool + " is updated first: " + a.Why})
		}
	}
	if w := c.Pace.Windows.At(d.now); !w.Open && !d.now.Before(c.OpenUntil) {
		text := "no maintenance window is open"
		if w.Window != "" {
			text = "outside of the maintenance windows (" + w.Window + ")"
		}
		if w.Until.IsZero() {
			text += ", and none opens within a year"
		} else {
			text += "; the next opening is " + at(w.Until)
			d.wakeAt(w.Until)
		}
		d.hold = append(d.hold, Block{Cause: CauseWindow, Reason: text, Until: w.Until})
	} else if !w.Until.IsZero() {
		d.wakeAt(w.Until)
	}
	if d.now.Before(c.OpenUntil) {
		d.wakeAt(c.OpenUntil)
	}
	if g, closed := d.closedGate(queries); closed && !reverting && !d.settled() {
		d.hold = append(d.hold, g)
		d.wakeAt(d.now.Add(askAgain))
	}
}
