package histories

import (
	"fmt"
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// truth knows why things are as they are.
type truth struct{ *world }

// stuck says what keeps a machine from going on, whatever it is told; empty for nothing.
func (w truth) stuck(m *machine) string {
	n := w.api.nodes[m.name]
	switch {
	case n == nil:
		return "without a node"
	case m.power != up:
		return "not up"
	case m.ill:
		return "with an ill kubelet"
	case len(n.Status.Conditions) > 1:
		return "short of disk space"
	case w.ledger.cordons[m.name]:
		return "cordoned by an administrator"
	case m.drifted:
		return "not as its config has it"
	case w.cut(m):
		return "cut off from the server of files"
	case !w.canGet(m, desiredOf(n)):
		return "waiting for secrets that no server has any more"
	}
	asked := n.Annotations[v1alpha1.DesiredDrainAnnotation]
	if asked == "" || asked == n.Annotations[v1alpha1.LastAppliedDrainAnnotation] &&
		n.Annotations[v1alpha1.PostponedAnnotation] == "" {
		return ""
	}
	for _, pod := range w.pods.on(m.name) {
		if pod.DeletionTimestamp == nil && !w.pods.room(pod.Labels["app"]) {
			return "waiting for a budget to let pod " + pod.Name + " go"
		}
	}
	return ""
}

// untrue says why what a node is said to wait for is not so; empty where it is.
func (w truth) untrue(m *machine, x poolstate.Waiting, f poolstate.Facts, decision poolstate.Decision) string {
	if x.Cause == poolstate.CauseCordoned && !w.api.nodes[m.name].Spec.Unschedulable {
		return "it is open"
	}
	return w.untrueCause(w.stuck(m) != "", x.Cause, f, decision)
}

// untrueBlock is untrue for a pool as a whole.
func (w truth) untrueBlock(b poolstate.Block, f poolstate.Facts, decision poolstate.Decision) string {
	return w.untrueCause(w.anyStuck(f), b.Cause, f, decision)
}

// untrueCause says why a cause is not there; trouble tells that something keeps those whom it is about from going on.
func (w truth) untrueCause(trouble bool, cause poolstate.Cause, f poolstate.Facts, decision poolstate.Decision) string {
	claims := func(is bool, but string) string {
		if is {
			return ""
		}
		return but
	}
	switch cause {
	case "":
		return fmt.Sprintf("nothing is said (told now: %t)", len(decision.Assign) > 0)
	case poolstate.CauseInvalid:
		return claims(f.Care.Invalid != "" || len(f.Care.Around.Cycle) > 0 || f.MaxUnavailable < 1,
			"nothing is invalid")
	case poolstate.CausePaused:
		return claims(w.api.pools[f.Pool].Spec.Paused, "the pool is not paused")
	case poolstate.CauseHalted, poolstate.CauseReverted:
		return claims(f.Care.Record.Verdict != "" && (w.gate == 2 || w.anyStuck(f)), "the last config fails nowhere")
	case poolstate.CauseWindow:
		return claims(!f.Care.Pace.Windows.At(w.now).Open && !w.now.Before(f.Care.OpenUntil), "a window is open")
	case poolstate.CauseGate:
		return claims(w.gate != 0 || w.anySick(f), "every gate is open")
	case poolstate.CauseAfterPool:
		return claims(w.anyAhead(f) || w.short(f), "every pool that comes first is done")
	case poolstate.CauseSoak:
		return claims(f.Care.Record.WellSince != nil && w.stillSoaks(f), "the soak is over")
	case poolstate.CauseCordoned:
		return claims(trouble, "nothing keeps it closed")
	case poolstate.CauseFetch:
		return claims(w.anyCut(f), "every node can reach the server of files")
	case poolstate.CauseNotReady, poolstate.CauseUpdating, poolstate.CauseDrain:
		return claims(trouble, "nothing is in its way")
	case poolstate.CauseFailed:
		return "the last config fails nowhere"
	case poolstate.CauseBudget:
		return claims(w.full(f) || w.short(f), "there are fewer nodes in trouble than places")
	case poolstate.CauseStep, poolstate.CauseHost:
		here := w.anyStuck(f) || w.anySick(f) || budgetOf(f) < 1 || w.emptyStep(f, decision)
		elsewhere := len(f.Care.Around.Together) > 0 && w.troubleElsewhere(f) || w.short(f)
		return claims(here || elsewhere, "no node of the pool is in trouble")
	case poolstate.CauseTogether:
		return claims(w.troubleElsewhere(f), "no node is in trouble")
	}
	return "nobody knows such a cause"
}

// anyStuck tells whether a machine of the pool is in trouble.
func (w truth) anyStuck(f poolstate.Facts) bool {
	for i := range f.Nodes {
		if w.stuck(w.machineOf(f.Nodes[i].Name)) != "" {
			return true
		}
	}
	return false
}

// anyCut tells whether a machine of the pool waits for files that it cannot download.
func (w truth) anyCut(f poolstate.Facts) bool {
	return slices.ContainsFunc(f.Nodes, func(n poolstate.Node) bool { return w.cut(w.machineOf(n.Name)) })
}

func (w truth) anywhereStuck() bool {
	for _, m := range w.machines {
		if m.power != removed && w.stuck(m) != "" {
			return true
		}
	}
	return false
}

// full tells whether nodes in trouble take all places of the pool, or of a zone.
func (w truth) full(f poolstate.Facts) bool {
	taken, sizes, all := map[string]int{}, map[string]int{}, 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		sizes[n.Zone]++
		m := w.machineOf(n.Name)
		if w.stuck(m) != "" && !w.staysInService(m) || w.sick[n.Name] {
			all++
			taken[n.Zone]++
		}
	}
	if per := f.Care.Pace.PerZone; per != nil {
		for zone, size := range sizes {
			if taken[zone] >= limit(f.Pool, per, size) {
				return true
			}
		}
	}
	return all >= budgetOf(f)
}

func (w truth) machineOf(node string) *machine {
	for _, m := range w.machines {
		if m.name == node {
			return m
		}
	}
	return nil
}

// troubleElsewhere tells whether a budget that pools share may be used up for long.
func (w truth) troubleElsewhere(f poolstate.Facts) bool {
	return w.anywhereStuck() || len(w.sick) > 0 || w.othersBehind(f)
}

// othersBehind tells whether a node of another pool is not on its target: that pool is asked why by itself.
func (w truth) othersBehind(f poolstate.Facts) bool {
	for _, n := range w.api.nodes {
		if p := w.poolOf(n); p != nil && p.Name != f.Pool && !w.onTarget(n, p) {
			return true
		}
	}
	return false
}

// anySick tells whether a DaemonSet's pod is not ready on a node of the pool.
func (w truth) anySick(f poolstate.Facts) bool {
	for i := range f.Nodes {
		if w.sick[f.Nodes[i].Name] {
			return true
		}
	}
	return false
}

// anyAhead tells whether a pool that comes first has a node that is not on its target, or is not there.
func (w truth) anyAhead(f poolstate.Facts) bool {
	for _, name := range poolstate.AheadOf(f.Pool, f.Care.Pace) {
		p := w.api.pools[name]
		if p == nil {
			return true
		}
		for _, n := range w.api.nodes {
			if w.poolOf(n) == p && !w.onTarget(n, p) {
				return true
			}
		}
	}
	return false
}

// noArbiter tells whether the arbiter is out of service for a reason of its own, and does not just wait for the
// masters.
func (w truth) noArbiter() bool {
	for _, m := range w.machines {
		n := w.api.nodes[m.name]
		if n == nil {
			continue
		}
		p, read := w.poolOf(n), poolstate.ReadNode(n)
		if p != nil && p.Name == "arbiter" && out(&read) && (w.stuck(m) != "" || p.Spec.Paused) {
			return true
		}
	}
	return false
}

func (w truth) stillSoaks(f poolstate.Facts) bool {
	k := f.Care.Record.Steps
	return k < len(f.Care.Pace.Steps) && w.now.Sub(f.Care.Record.WellSince.Time) < f.Care.Pace.Steps[k].Soak
}

// emptyStep tells whether the step under way picks no node.
func (w truth) emptyStep(f poolstate.Facts, decision poolstate.Decision) bool {
	k := decision.Record.Steps
	v := verdict{world: w.world, f: f, decision: decision}
	return k < len(f.Care.Pace.Steps) && v.unfinished(f.Care.Pace.Steps[k]) == "its selector picks no node"
}
