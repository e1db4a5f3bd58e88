package histories

import (
	"fmt"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// What a node's reports mean, said once more: rules must not take the word of what they check.

func ready(n *poolstate.Node) bool { return n.Health.Trouble == "" && !n.Cordon.Unschedulable }

func done(n *poolstate.Node) bool {
	return !n.Config.Current.IsZero() && n.Config.Current == n.Config.Desired && n.State == v1alpha1.StateDone
}

func failing(n *poolstate.Node) bool {
	return (n.State == v1alpha1.StateDegraded || n.State == v1alpha1.StateUnreconcilable) &&
		n.Config.Current != n.Config.Desired
}

func blank(n *poolstate.Node) bool {
	return n.Config.Current.IsZero() && n.Config.Desired.IsZero() && n.State == v1alpha1.StateDone
}

// out of service, or on its way there and back.
func out(n *poolstate.Node) bool { return !ready(n) || !done(n) && !failing(n) && !blank(n) }

// broken tells that a node failed another config than a target, so that the target may heal it.
func broken(n *poolstate.Node, target string) bool {
	return failing(n) && n.Config.Desired != v1alpha1.ParseConfigVersion(target) && !n.Cordon.ByAdministrator()
}

// budgetOf is how many nodes of a pool may be out of service.
func budgetOf(f poolstate.Facts) int {
	if p := f.Care.Pace.MaxUnavailable; p != nil {
		return limit(f.Pool, p, len(f.Nodes))
	}
	return f.MaxUnavailable
}

func limit(pool string, max *intstr.IntOrString, nodes int) int {
	n, err := poolstate.MaxUnavailable(pool, max, nodes)
	if err != nil {
		return 0
	}
	return n
}

// verdict is a decision under judgement.
type verdict struct {
	*world
	f        poolstate.Facts
	decision poolstate.Decision
	// told are the orders by node; fresh are those nodes of them that have something to lose: they neither failed
	// another config nor are lost.
	told  map[string]poolstate.Assignment
	fresh []*poolstate.Node
}

// judge holds a decision against the rules.
func (w watcher) judge(pool *mcfgv1.MachineConfigPool, f poolstate.Facts, decision poolstate.Decision) {
	v := verdict{world: w.world, f: f, decision: decision, told: make(map[string]poolstate.Assignment,
		len(decision.Assign))}
	for _, a := range decision.Assign {
		v.told[a.Node] = a
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if _, told := v.told[n.Name]; told && !broken(n, decision.Target.String()) && !v.lost(n) {
			v.fresh = append(v.fresh, n)
		}
	}
	v.budgets()
	v.order()
	v.doors(pool)
	v.quorum()
	v.steps()
	v.failures()
	v.downloads()
	if w.api.version%4 == 0 {
		v.accounts()
	}
}

// lost: a node that is not Ready for more than ten minutes, and runs something else than the pool was well with last.
// The masters cannot wait that long for their arbiter, and where a pool goes back, it is known what ails a node.
func (v verdict) lost(n *poolstate.Node) bool {
	c, arbiter := n.Config, v.f.Pool == "arbiter"
	away := arbiter || v.decision.Target != v.f.Target || v.now.Sub(n.Health.Since) > 10*time.Minute
	return n.Health.Trouble != "" && away &&
		(arbiter || c.Current != c.Desired || c.Current != v.decision.Record.LastHealthy())
}

// budgets: pool, zones, and those that are shared.
func (v verdict) budgets() {
	zones := map[string]int{}
	for i := range v.f.Nodes {
		zones[v.f.Nodes[i].Zone]++
	}
	v.budget("pool "+v.f.Pool, budgetOf(v.f), 0, func(*poolstate.Node) bool { return true })
	if per := v.f.Care.Pace.PerZone; per != nil {
		for zone, size := range zones {
			v.budget(fmt.Sprintf("zone %q of pool %s", zone, v.f.Pool), limit(v.f.Pool, per, size), 0,
				func(n *poolstate.Node) bool { return n.Zone == zone })
		}
	}
	for _, s := range v.f.Care.Around.Together {
		v.budget("policy "+s.Policy, s.Max, s.Used, func(*poolstate.Node) bool { return true })
	}
}

// budget counts who is out of service before and after. A node that runs the target already is only confirmed, and
// costs nothing.
func (v verdict) budget(whose string, limit, others int, counts func(*poolstate.Node) bool) {
	before, after := others, others
	for i := range v.f.Nodes {
		n := &v.f.Nodes[i]
		if !counts(n) {
			continue
		}
		_, told := v.told[n.Name]
		if out(n) {
			before++
			after++
		} else if told && n.Config.Current != v.decision.Target {
			after++
		}
	}
	if after > before && after > limit {
		v.breaks(OverBudget, "%s has %d places, %d were taken, and the decision takes %d more", whose, limit, before,
			after-before)
	}
}

// order: whoever is broken comes before whoever is well and in service.
func (v verdict) order() {
	in := slices.DeleteFunc(slices.Clone(v.fresh), func(n *poolstate.Node) bool {
		return out(n) || n.Config.Current == v.decision.Target
	})
	if len(in) == 0 {
		return
	}
	for i := range v.f.Nodes {
		n := &v.f.Nodes[i]
		// One that is in service takes a place, and there may be none in its zone; one whose drain was given up has had
		// its turn.
		waits := ready(n) && (v.f.Care.Pace.PerZone != nil || n.Name == v.f.Host) ||
			n.Postponed.For == v.decision.Target
		if _, told := v.told[n.Name]; !told && broken(n, v.decision.Target.String()) && !waits {
			v.breaks(BrokenFirst, "%s is told %s before %s, which failed %s", in[0].Name, v.decision.Target, n.Name,
				n.Config.Desired)
		}
	}
}

// doors: pauses, windows, other pools.
func (v verdict) doors(pool *mcfgv1.MachineConfigPool) {
	if v.f.Paused && len(v.told) > 0 {
		v.breaks(PausedPool, "%d nodes of pool %s are told %s", len(v.told), v.f.Pool, v.decision.Target)
	}
	c := v.f.Care
	window := c.Pace.Windows.At(v.now)
	for _, n := range v.fresh {
		if !window.Open && !v.now.Before(c.OpenUntil) && n.Config.Current != v.decision.Target {
			v.breaks(ClosedWindow, "%s is told %s, and the next window opens at %s", n.Name, v.decision.Target,
				moment(window.Until))
		}
		for _, first := range c.Pace.After {
			// the masters wait for such an arbiter
			free := n.Config.Current == v.decision.Target || v.f.Pool == "arbiter" && out(n)
			if why := v.behind(pool, first); why != "" && !free {
				v.breaks(AfterPools, "%s of pool %s is told %s, but %s", n.Name, v.f.Pool, v.decision.Target, why)
			}
		}
	}
}

// behind says why a pool is not where another one's commit wants it, as the watches show it.
func (v verdict) behind(own *mcfgv1.MachineConfigPool, first string) string {
	p := v.proc.pools[first]
	switch {
	case p == nil:
		return "" // whether a pool that does not exist is waited for is not ours to say
	case p.Annotations[v1alpha1.RevisionAnnotation] < own.Annotations[v1alpha1.RevisionAnnotation]:
		return fmt.Sprintf("pool %s is at %s and not at %s", first, p.Annotations[v1alpha1.RevisionAnnotation],
			own.Annotations[v1alpha1.RevisionAnnotation])
	case p.Spec.Configuration.Name != p.Status.Configuration.Name:
		return fmt.Sprintf("pool %s runs %s and not %s", first, p.Status.Configuration.Name, p.Spec.Configuration.Name)
	}
	return ""
}

// accounts: no node is forgotten.
func (v verdict) accounts() {
	waits := map[string]poolstate.Waiting{}
	for _, x := range v.core.Explain(v.f, v.decision, v.now) {
		waits[x.Node] = x
	}
	for i := range v.f.Nodes {
		n := &v.f.Nodes[i]
		_, told := v.told[n.Name]
		x, waiting := waits[n.Name]
		if done(n) && n.Config.Current == v.decision.Target || told {
			continue
		}
		if !waiting || x.Cause == "" || x.Reason == "" {
			v.breaks(EveryNode, "%s runs %s and not %s, is not told anything, and the reason given is %q", n.Name,
				n.Config.Current, v.decision.Target, x.Reason)
		}
	}
}
