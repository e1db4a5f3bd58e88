package histories

import (
	"fmt"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// How long the end may take.
const (
	mostRounds = 400
	mostTime   = 72 * time.Hour
	calmRounds = 3
	// plenty is more pods than there are.
	plenty = 1000
)

// finale plays the end of a history.
type finale struct{ *world }

// end stops most disturbances, brings a last good config and waits until nothing happens any more: then every healthy
// node runs it, or the pool says why not. Where one does, all disturbances stop and another config is brought: then
// there is nothing left to say.
func (w finale) end() Ending {
	w.tell("— the disturbances end —")
	w.mercy(w.spared)
	w.lastPush(w.spared(61))
	w.settle()
	e := w.standings()
	if e.Explained > 0 && w.ledger.broken == "" {
		w.tell("— what is left of them ends, too —")
		for i := range w.pods.apps {
			w.pods.apps[i].spare = plenty
		}
		for _, c := range w.made {
			c.ails = sound
		}
		w.mercy(func(int) bool { return false })
		w.lastPush(false)
		w.settle()
		e.Excused = w.standings().Explained
	}
	w.rest()
	watcher(w).checkViews()
	return e
}

// settle waits until nothing happens any more.
func (w finale) settle() {
	began, calm := w.elapsed, 0
	for round := 0; round < mostRounds && w.elapsed-began < mostTime && calm < calmRounds &&
		w.ledger.broken == ""; round++ {
		before := w.tale.stirs
		w.round()
		if w.tale.stirs != before {
			calm = 0
			w.tick(15 * time.Second)
			continue
		}
		next, ok := w.proc.next()
		if !ok {
			calm++
			next = w.elapsed + time.Hour
		}
		if w.converged() { // what is looked at again now must be left as it is
			calm++
		}
		w.tick(max(next-w.elapsed, time.Second))
	}
}

// standings asks every pool.
func (w finale) standings() (e Ending) {
	for _, p := range w.setup.Pools {
		if w.ledger.broken != "" {
			break
		}
		if w.explain(p.Name) {
			e.Explained++
		} else {
			e.Converged++
		}
	}
	return e
}

// rest checks that where everybody is done, another look at everything writes nothing, whatever the time.
func (w finale) rest() {
	if w.ledger.broken != "" || !w.converged() {
		return
	}
	before := 0
	for range calmRounds {
		before = w.api.version // the first may still note that what soaked or was gated is well
		w.tick(time.Hour)
		w.proc.news()
		for _, m := range w.machines {
			w.proc.due[m.name] = 0
		}
		w.round()
	}
	if w.ledger.broken == "" && w.api.version != before && w.converged() {
		w.breaks(Rest, "every node runs its target, and %d more writes are made", w.api.version-before)
	}
}

// spared tells whether a disturbance goes on.
func (w *world) spared(bit int) bool { return w.setup.Mercy>>bit&1 == 1 }

// mercy ends the disturbances, but for those that are spared.
func (w finale) mercy(spared func(int) bool) {
	if w.now.Before(w.furthest) {
		w.tell("the clock is put right")
		w.now = w.furthest
	}
	for i, p := range w.setup.Pools {
		if !spared(i) {
			people(w).onPool(p.Name, Step{Verb: Resume})
		}
	}
	w.hide(false)
	etcd(w).forget()
	if !spared(5) {
		w.step(Step{Verb: Gate, B: 0})
	}
	for i := range w.pods.apps {
		if !spared(6 + i) {
			w.step(Step{Verb: Open, A: i})
		}
	}
	for i, m := range w.machines {
		if w.ledger.cordons[m.name] && !spared(12+i) {
			people(w).onMachine(m, Step{Verb: Uncordon})
		}
		if !spared(24 + i) {
			people(w).onMachine(m, Step{Verb: Repair})
		}
		if !spared(36 + i) {
			people(w).onMachine(m, Step{Verb: Well})
			people(w).onMachine(m, Step{Verb: Mend})
			people(w).onMachine(m, Step{Verb: CutOff})
			people(w).onMachine(m, Step{Verb: Member})
			people(w).onMachine(m, Step{Verb: Pressure})
		}
		if !spared(48 + i) {
			people(w).onMachine(m, Step{Verb: NodeGate})
		}
	}
}

// lastPush is a good config for every pool: a new one, or a revert to the first.
func (w finale) lastPush(back bool) {
	next := commit{}
	for i, p := range w.setup.Pools {
		if back {
			next[p.Name] = w.git[0][p.Name]
		} else {
			next[p.Name] = w.make(p.Name, need((w.setup.Mercy>>62+uint64(i)+2)%3), sound, 0).name
		}
	}
	w.git = append(w.git, next)
	w.tell("commit %d brings what is good for every pool: %v", len(w.git)-1, next)
	for _, c := range w.order {
		w.api.configs[c.name] = c
	}
	for _, p := range w.setup.Pools {
		w.publish(w.made[next[p.Name]], need((w.setup.Mercy>>60+2)%3), sound, 0)
	}
}

// next is when a controller looks at something again by itself.
func (p *process) next() (at time.Duration, ok bool) {
	for _, clocks := range []map[string]time.Duration{p.look, p.due} {
		for _, t := range clocks {
			if !ok || t < at {
				at, ok = t, true
			}
		}
	}
	return at, ok
}

// round lets everybody do what is next. Controllers look only at what they have news of, or meant to look at again.
func (w finale) round() {
	p := w.proc
	for i, pool := range w.setup.Pools {
		w.render(pool.Name)
		p.hear(w.world, hearNodes|hearPools)
		at, planned := p.look[pool.Name]
		if p.dirty[pool.Name] || planned && at <= w.elapsed {
			rollouts(w).sync(i, hearNodes|hearPools)
		}
		for n := 0; len(p.pending) > 0 && n < 100; n++ {
			rollouts(w).sync(i, hearNodes|hearPools)
		}
	}
	for _, m := range w.machines {
		if m.power == removed {
			continue
		}
		p.hear(w.world, hearNodes|hearPools)
		for range 3 {
			if at, planned := p.due[m.name]; planned && at <= w.elapsed {
				drains(w).look(m.name, hearNodes|hearPools)
			}
		}
		daemon(w).act(m)
		daemon(w).act(m)
		hardware(w).act(m, false)
	}
}

// converged tells whether every node of every pool runs its target.
func (w *world) converged() bool {
	for _, n := range w.api.nodes {
		if p := w.poolOf(n); p != nil && !w.onTarget(n, p) {
			return false
		}
	}
	return true
}

// poolOf is the pool of a node, as it is.
func (w *world) poolOf(n *corev1.Node) *mcfgv1.MachineConfigPool {
	primary, _, err := w.proc.members.For(n.Name, n.Labels)
	if err != nil {
		return nil
	}
	return w.api.pools[primary]
}

func (w *world) onTarget(n *corev1.Node, p *mcfgv1.MachineConfigPool) bool {
	read := poolstate.ReadNode(n)
	return done(&read) && ready(&read) && read.Config.Current.String() == w.targetOf(p.Spec.Configuration.Name)
}

// explain checks each node of a pool that does not run the target: is it said why, and is that true? It tells whether
// there was any.
func (w finale) explain(pool string) (any bool) {
	p := w.api.pools[pool]
	w.proc.hear(w.world, hearNodes|hearPools)
	f := rollouts(w).gather(p)
	f, decision := rollouts(w).decide(f)
	waits := map[string]poolstate.Waiting{}
	for _, x := range w.core.Explain(f, decision, w.now) {
		waits[x.Node] = x
	}
	for _, m := range w.machines {
		n := w.api.nodes[m.name]
		if n == nil || w.poolOf(n) != p {
			continue
		}
		if n.Spec.Unschedulable && !w.ledger.cordons[m.name] && m.power == up && w.runsTarget(n, p) {
			w.breaks(OwnCordon, "%s runs %s and is still closed for %s", m.name, p.Spec.Configuration.Name,
				n.Annotations[v1alpha1.CordonedAnnotation])
		}
		if w.onTarget(n, p) {
			continue
		}
		any = true
		if decision.Record.Verdict == v1alpha1.RolloutReverted && currentOf(n) == decision.Target.String() {
			continue // it is back, as the pool says
		}
		if w.runsTarget(n, p) && truth(w).stuck(m) != "" {
			continue // it was not asked for more than that
		}
		x := waits[m.name]
		if truth(w).stuck(m) != "" && slices.ContainsFunc(decision.Assign, func(a poolstate.Assignment) bool {
			return a.Node == m.name
		}) {
			continue // it is asked once more
		}
		if why := truth(w).untrue(m, x, f, decision); why != "" {
			w.breaks(w.rule(m), "%s is %s; it is said to wait because of %s: %q, but %s. The pool says %s", m.name,
				w.standing(m), x.Cause, x.Reason, why, blocks(decision))
		}
	}
	w.checkBlocks(pool, any, f, decision)
	return any
}

// checkBlocks checks what the pool as a whole is said to wait for.
func (w finale) checkBlocks(pool string, behind bool, f poolstate.Facts, decision poolstate.Decision) {
	for _, b := range decision.Blocks {
		if why := truth(w).untrueBlock(b, f, decision); why != "" {
			w.breaks(TrueReason, "pool %s is said to wait because of %s: %q, but %s", pool, b.Cause, b.Reason, why)
		}
	}
	late := func(n *poolstate.Node) bool { return n.Config.Current != decision.Target || !done(n) }
	if behind && !truth(w).silent(f) && len(decision.Blocks)+len(decision.Assign)+len(decision.Release) == 0 &&
		slices.ContainsFunc(f.Nodes, func(n poolstate.Node) bool { return late(&n) }) {
		w.breaks(TrueReason, "not every node of pool %s runs %s, nothing moves any more, and the pool says nothing",
			pool, decision.Target)
	}
}

func blocks(w poolstate.Decision) string {
	text := fmt.Sprintf("(step %d of %d, %d told now)", w.Stage.Step, w.Stage.Of, len(w.Assign))
	for _, b := range w.Blocks {
		text += fmt.Sprintf(" [%s: %s]", b.Cause, b.Reason)
	}
	return text
}

// rule that is broken where a node does not come to the target: it matters whether anything is wrong with it.
func (w finale) rule(m *machine) Rule {
	if truth(w).stuck(m) == "" {
		return Converges
	}
	return TrueReason
}

// runsTarget: it runs the target, whether or not it is in service.
func (w *world) runsTarget(n *corev1.Node, p *mcfgv1.MachineConfigPool) bool {
	read := poolstate.ReadNode(n)
	return done(&read) && read.Config.Current.String() == w.targetOf(p.Spec.Configuration.Name)
}

// standing is how a machine is, for a story.
func (w finale) standing(m *machine) string {
	text := fmt.Sprintf("in %s", m.inForce)
	if why := truth(w).stuck(m); why != "" {
		return text + ", " + why
	}
	return text + " and healthy"
}
