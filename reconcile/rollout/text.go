package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

func stableWording(e evaluation) poolstate.Wording {
	return poolstate.Wording{Now: e.now, Target: e.nodes.Target, Stable: true, Most: poolstate.MaxReason}
}

func pausedText(f poolstate.Facts) string {
	text := "pool " + f.Pool + " is paused"
	if who := strings.Join(strings.Fields(f.PausedBy), " "); who != "" {
		text += " by " + poolstate.Shorten(who, poolstate.MaxReason)
	}
	return text
}

// retryText names the retried nodes for which all others wait.
func retryText(target v1alpha1.ConfigVersion, names []string, until time.Time) string {
	texts := slices.Clone(names[:min(len(names), poolstate.MaxNamed)])
	if more := len(names) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("retrying %s on %s first; the other nodes wait until it succeeds, at most until %s",
		target, strings.Join(texts, ", "), poolstate.FormatDeadline(until, patience))
}

func noBudgetText(pool string, limit int) string {
	return fmt.Sprintf("maxUnavailable of pool %s is %d, so no node may go out of service", pool, limit)
}

// budgetText names the nodes that take the places of the budget, including those that the decision assigns.
func budgetText(p plan, w poolstate.Wording) string {
	if p.capacity.max < 1 {
		return noBudgetText(p.Pool, p.capacity.max)
	}
	var names, states []string
	w.Bare = true
	for _, m := range p.nodes.Occupying[:min(len(p.nodes.Occupying), poolstate.MaxNamed)] {
		text := w.State(m.Node)
		if p.assigned.has(m) {
			text = "assigned " + p.nodes.Target.String() + " now"
		}
		if m.Places() > 1 && !isForgiven(p.record, m) {
			text += "; counts twice"
		}
		names, states = append(names, m.Name), append(states, text)
	}
	total := len(p.nodes.Occupying)
	for _, m := range p.assigned.members {
		if m.Places() > 0 || m.Candidate != poolstate.CandidateInService {
			continue
		}
		total++
		if len(names) < poolstate.MaxNamed {
			names, states = append(names, m.Name), append(states, "assigned "+p.nodes.Target.String()+" now")
		}
	}
	texts := inStates(names, states)
	if more := total - len(names); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	if n := p.capacity.settling.nodes; n > 0 {
		texts = append(texts, fmt.Sprintf("%d updated and not Ready for long enough", n))
	}
	text := fmt.Sprintf("pool %s allows %s", p.Pool, unavailableNodes(p.capacity.max))
	if len(texts) == 0 {
		return text + ", and that many are"
	}
	return "waiting for " + strings.Join(texts, ", ") + "; " + text
}

// inStates has a text for each state, with the nodes that are in it. Both lists have the same length.
func inStates(names, states []string) []string {
	var order, texts []string
	of := map[string][]string{}
	for i, state := range states {
		if of[state] == nil {
			order = append(order, state)
		}
		of[state] = append(of[state], names[i])
	}
	for _, state := range order {
		in, last := of[state], ""
		if n := len(in) - 1; n > 0 {
			in, last = in[:n], " and "+in[n]
		}
		texts = append(texts, strings.Join(in, ", ")+last+" ("+state+")")
	}
	return texts
}

// sharedText names the pools that take the places of a shared budget.
func sharedText(p plan, t poolstate.Shared) string {
	own := p.capacity.used + p.assigned.inService
	text := fmt.Sprintf("RolloutPolicy %s allows %s in all its pools; in use: %d (%s %d", t.Policy,
		unavailableNodes(t.Max), t.Used+own, p.Pool, own)
	if t.Who != "" {
		text += ", " + t.Who
	}
	return text + ")"
}

// unavailableNodes says how many nodes may be unavailable at a time. A failed node takes a place, too.
func unavailableNodes(n int) string {
	if n == 1 {
		return "1 unavailable or failed node"
	}
	return fmt.Sprintf("%d unavailable or failed nodes", n)
}

// zoneText says that a zone's limit is reached.
func zoneText(p plan, zone string) string {
	name, z := zone, p.nodes.Zones[zone]
	if name == "" {
		name = "(none)"
	}
	used := z.Places + p.capacity.settling.zones[zone] + p.assigned.zones[zone]
	return fmt.Sprintf("zone %s: %d places used, maxUnavailablePerZone is %s of %d nodes", name, used,
		p.capacity.perZone, z.Nodes)
}
