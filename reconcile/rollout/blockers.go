package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// blockers are the reasons not to assign the target to nodes.
type blockers struct {
	// stops are reasons that apply to every node. holds are reasons that apply only to nodes that the target would
	// disrupt.
	stops, holds []poolstate.Block
	again        time.Time
}

// findBlockers finds the reasons that block the pool as a whole.
func findBlockers(e evaluation, c capacity) blockers {
	b := blockers{stops: findStops(e, c)}
	if e.nodes.Total.Behind == 0 {
		return b // No node waits for the target.
	}
	reverting := e.record.Verdict == v1alpha1.RolloutReverted
	if names := retriedNodes(e.record); len(names) > 0 {
		until := patientUntil(e)
		b.holds = append(b.holds, poolstate.Block{
			Cause: poolstate.CauseFailed, Reason: retryText(e.nodes.Target, names, until),
			Until: until,
		})
	}
	b.holds = slices.Concat(cycleBlocks(e.Care), b.holds, poolsBefore(e, reverting))
	w := checkWindow(e)
	b.holds, b.again = append(b.holds, w.holds...), w.again
	if g, closed := closedGate(e, queries); closed && !reverting && !settled(e) {
		b.holds = append(b.holds, g)
		b.again = earliest(b.again, e.now.Add(recheckGates))
	}
	return b
}

// findStops finds the reasons that apply to every node.
func findStops(e evaluation, c capacity) []poolstate.Block {
	stops := slices.Clone(c.invalid)
	if e.Care.Invalid != "" {
		stops = append(stops, poolstate.Block{
			Cause: poolstate.CauseInvalid, Reason: e.Care.Invalid,
			Policies: e.Care.InvalidPolicies,
		})
	}
	if e.Paused {
		stops = append(stops, poolstate.Block{Cause: poolstate.CausePaused, Reason: pausedText(e.Facts)})
	}
	if e.record.Verdict == v1alpha1.RolloutHalted {
		stops = append(stops, verdictBlock(e.Pool, e.record))
	}
	if c.max < 1 {
		stops = append(stops, poolstate.Block{Cause: poolstate.CauseBudget, Reason: noBudgetText(e.Pool, c.max)})
	}
	return stops
}

// invalidBlocks returns the blocks that name invalid settings, which a user has to correct.
func invalidBlocks(c poolstate.Care) []poolstate.Block {
	var blocks []poolstate.Block
	if c.Invalid != "" {
		blocks = append(blocks, poolstate.Block{
			Cause: poolstate.CauseInvalid, Reason: c.Invalid,
			Policies: c.InvalidPolicies,
		})
	}
	if c.Lost != "" {
		blocks = append(blocks, poolstate.Block{Cause: poolstate.CauseInvalid, Reason: c.Lost})
	}
	return blocks
}

// verdictBlock returns the block of a halted or reverted rollout.
func verdictBlock(pool string, r v1alpha1.RolloutRecord) poolstate.Block {
	if r.Verdict == v1alpha1.RolloutReverted {
		return poolstate.Block{
			Cause: poolstate.CauseReverted,
			Reason: fmt.Sprintf("pool %s was reverted from %s to %s: %s", pool,
				r.Target(), r.ReturnsTo(), r.Why),
		}
	}
	return poolstate.Block{
		Cause:  poolstate.CauseHalted,
		Reason: fmt.Sprintf("the rollout of %s is halted: %s", r.Target(), r.Why),
	}
}

// cycleBlocks returns the block that names pools that wait for each other in a cycle.
func cycleBlocks(c poolstate.Care) []poolstate.Block {
	if len(c.Around.Cycle) == 0 {
		return nil
	}
	return []poolstate.Block{{
		Cause: poolstate.CauseInvalid,
		Reason: fmt.Sprintf("pools %s wait for each other; remove one of them from "+
			"`after` of its RolloutPolicy",
			strings.Join(slices.Concat(c.Around.Cycle, c.Around.Cycle[:1]), ", ")), Policies: c.Pace.Policies,
	}}
}

// poolsBefore returns a block for each pool that is updated before this pool and has not finished.
func poolsBefore(e evaluation, reverting bool) []poolstate.Block {
	var blocks []poolstate.Block
	for _, a := range e.Care.Around.Ahead {
		switch {
		case a.Done, reverting, a.Pool == membership.Master && arbiterIsOut(e):
		case a.Missing: // The pool does not exist, so only a user can end this wait.
			blocks = append(blocks,
				poolstate.Block{
					Cause: poolstate.CauseInvalid,
					Reason: fmt.Sprintf("`after` of RolloutPolicy %s names pool %s, which "+
						"does not exist",
						strings.Join(e.Care.Pace.Policies, ", "), a.Pool), Policies: e.Care.Pace.Policies,
				})
		default:
			blocks = append(blocks, poolstate.Block{Cause: poolstate.CauseAfterPool, Reason: "pool " + a.Pool +
				" is updated first: " +
				a.Why})
		}
	}
	return blocks
}

// arbiterIsOut reports whether the arbiter is out of service with its current config. In this case, the masters wait
// for the arbiter, because they need it for their quorum, and the arbiter does not wait for the masters.
func arbiterIsOut(e evaluation) bool {
	return e.Pool == poolstate.ArbiterPool && (len(e.nodes.Candidates[poolstate.CandidateDegraded]) > 0 ||
		slices.ContainsFunc(e.nodes.NotReady, func(m *poolstate.Member) bool { return !m.Changing() }))
}

// checkWindow blocks the pool outside its maintenance windows.
func checkWindow(e evaluation) (b blockers) {
	w := e.Care.Pace.Windows.At(e.now)
	if e.now.Before(e.Care.OpenUntil) {
		b.again = e.Care.OpenUntil
	}
	b.again = earliest(b.again, w.Until)
	if w.Open || e.now.Before(e.Care.OpenUntil) {
		return b
	}
	text := "no maintenance window is open"
	if w.Window != "" {
		text = "outside of the maintenance windows (" + w.Window + ")"
	}
	if w.Until.IsZero() {
		text += ", and none opens within a year"
	} else {
		text += "; the next opening is " + poolstate.FormatTime(w.Until)
	}
	b.holds = []poolstate.Block{{Cause: poolstate.CauseWindow, Reason: text, Until: w.Until}}
	return b
}
