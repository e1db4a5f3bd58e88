package histories

import (
	"fmt"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// step plays one step.
func (w *world) step(s Step) {
	switch s.Verb {
	case Sync:
		rollouts{w}.sync(s.A, s.B)
	case Drain, Daemon, Machine, Cordon, Uncordon, DeleteNode, Move, NodeGate, RetryNode, Ill, Well, Drift, Mend,
		Repair, CutOff, Member, Pressure:
		if s.A >= 0 && s.A < len(w.machines) {
			people{w}.onMachine(w.machines[s.A], s)
		}
	case Restart:
		w.tell("the controllers crash and start again")
		w.proc = newProcess(w)
	case Tick:
		w.tick(time.Duration(s.B) * time.Second)
	case Push, Revert, Vanish, Remake:
		people{w}.onGit(s)
	case Shut, Open:
		if s.A < len(w.pods.apps) && w.pods.apps[s.A].shut != (s.Verb == Shut) {
			w.pods.apps[s.A].shut = s.Verb == Shut
			w.tell("the PodDisruptionBudget of %s %s", w.pods.apps[s.A].name,
				map[bool]string{true: "forbids every eviction", false: "has room again"}[s.Verb == Shut])
		}
	case Gate:
		if w.gate == s.B {
			return
		}
		w.gate = s.B
		w.tell("the gates of the pools %s", []string{"are open", "do not answer", "fail"}[s.B])
	case Policy:
		people{w}.editPolicy(s.A, s.B)
	case Hide:
		w.hide(s.B == 1)
	default:
		if s.A >= 0 && s.A < len(w.setup.Pools) {
			people{w}.onPool(w.setup.Pools[s.A].Name, s)
		}
	}
}

func (w *world) tick(d time.Duration) {
	w.now = w.now.Add(d)
	w.elapsed += max(0, d)
	if w.now.After(w.furthest) {
		w.furthest = w.now
	}
	if d >= 10*time.Minute {
		w.tell("%s pass", d)
	}
	if d < 0 {
		w.tell("the clock is set back by %s", -d)
		for pod, a := range w.proc.answers { // what a process remembers goes by a clock of its own
			a.At, a.Since = a.At.Add(d), a.Since.Add(d)
			w.proc.answers[pod] = a
		}
	}
}

// people play what is done to the cluster, and in the repository.
type people struct{ *world }

// onMachine plays what happens to one machine.
func (w people) onMachine(m *machine, s Step) {
	if m.power == removed {
		return
	}
	switch s.Verb {
	case Drain:
		drains(w).look(m.name, s.B)
	case Daemon:
		daemon(w).act(m)
	case Machine:
		hardware(w).act(m, s.B == 1)
	case Ill, Well:
		if m.ill != (s.Verb == Ill) {
			m.ill = s.Verb == Ill
			w.tell("the kubelet of %s %s", m.name, map[bool]string{true: "falls ill", false: "recovers"}[m.ill])
		}
	case Drift, Mend:
		if m.drifted != (s.Verb == Drift) {
			m.drifted = s.Verb == Drift
			w.tell("somebody %s", map[bool]string{
				true:  "changes a file on " + m.name,
				false: "puts back what was changed on " + m.name,
			}[m.drifted])
		}
	case CutOff:
		if m.cutOff != (s.B > 0) {
			m.cutOff = s.B > 0
			w.tell("%s %s the server of files", m.name, map[bool]string{
				true:  "is cut off from",
				false: "can reach",
			}[m.cutOff])
		}
	case Member:
		w.setMember(m, s.B == 1)
	case Pressure:
		w.setPressure(m, s.B == 1)
	case Repair:
		if m.power == lost {
			w.tell("somebody power-cycles %s, which comes up in %s", m.name, m.inForce)
			m.verdict, m.verdictAt, m.doing, m.power = m.doing, w.now, "", up
		}
	case DeleteNode:
		w.deleteNode(m, s.B == 1)
	default:
		if n := w.api.nodes[m.name]; n != nil {
			w.onNode(m, n, s)
		}
	}
}

func (w people) deleteNode(m *machine, forGood bool) {
	if w.api.nodes[m.name] == nil && !forGood {
		return
	}
	w.tell("somebody deletes node %s%s", m.name, map[bool]string{true: ", whose machine is gone for good"}[forGood])
	w.api.deleteNode(m.name)
	w.pods.orphan(m.name)
	w.ledger.forget(m.name)
	if forGood {
		m.power = removed
	}
}

// onNode plays what an administrator does to a node.
func (w people) onNode(m *machine, n *corev1.Node, s Step) {
	switch s.Verb {
	case Cordon:
		if n.Spec.Unschedulable {
			return
		}
		w.tell("an administrator cordons %s", m.name)
		w.ledger.cordoned(n)
		w.api.editNode(m.name, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	case Uncordon:
		if !n.Spec.Unschedulable {
			return
		}
		w.tell("an administrator uncordons %s", m.name)
		delete(w.ledger.cordons, m.name)
		w.ledger.opened[m.name] = true
		w.api.editNode(m.name, func(n *corev1.Node) { n.Spec.Unschedulable = false })
	case Move:
		if s.B < 0 || s.B >= len(w.setup.Pools) || m.pool == w.setup.Pools[s.B].Name {
			return
		}
		was := roleLabel + m.pool
		m.pool = w.setup.Pools[s.B].Name
		w.tell("somebody labels %s into pool %s%s", m.name, m.pool,
			map[bool]string{true: ", and forgets to take the old label away"}[s.C == 1])
		w.ledger.disturbed(m.name)
		w.api.editNode(m.name, func(n *corev1.Node) {
			if n.Labels = hardware(w).labels(m); s.C == 1 {
				n.Labels[was] = ""
			}
		})
	case NodeGate:
		if w.sick[m.name] != (s.B != 0) {
			w.sick[m.name] = s.B != 0
			w.tell("the DaemonSet's pod on %s is %s", m.name, map[bool]string{
				true:  "not ready",
				false: "ready",
			}[s.B != 0])
		}
	case RetryNode:
		w.tell("somebody asks for a retry on %s", m.name)
		w.api.editNode(m.name, func(n *corev1.Node) {
			n.Annotations[v1alpha1.RetryAnnotation] = w.now.Format(time.RFC3339)
		})
	}
}

// onPool plays what happens to a pool.
func (w people) onPool(pool string, s Step) {
	p := w.api.pools[pool]
	switch s.Verb {
	case Render:
		w.render(pool)
	case Rotate:
		w.rotate(pool, s)
	case Pause, Resume:
		if p.Spec.Paused != (s.Verb == Pause) {
			w.tell("somebody %ss pool %s", names[s.Verb], pool)
			w.api.editPool(pool, func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = s.Verb == Pause })
		}
	case Budget:
		w.tell("somebody sets maxUnavailable of pool %s to %s", pool, budgets[s.B].String())
		w.api.editPool(pool, func(p *mcfgv1.MachineConfigPool) { p.Spec.MaxUnavailable = &budgets[s.B] })
	case RetryPool:
		w.retry(pool)
	case OpenUntil:
		w.tell("somebody opens pool %s for %d minutes", pool, s.B)
		w.api.editPool(pool, func(p *mcfgv1.MachineConfigPool) {
			p.Annotations[v1alpha1.OpenUntilAnnotation] = w.now.Add(time.Duration(s.B) * time.Minute).
				Format(time.RFC3339)
		})
	case AddNode:
		if len(w.machines) < maxMachines {
			w.newcomer(p, zones[s.B%len(zones)], s.C)
		}
	}
}

// retry asks a pool, and those of its nodes that failed, to try again.
func (w people) retry(pool string) {
	w.tell("somebody asks for a retry of pool %s", pool)
	now := w.now.Format(time.RFC3339)
	w.api.editPool(pool, func(p *mcfgv1.MachineConfigPool) { p.Annotations[v1alpha1.RetryAnnotation] = now })
	for _, m := range w.machines {
		n := w.api.nodes[m.name]
		if n == nil || w.poolOf(n) != w.api.pools[pool] {
			continue
		}
		w.ledger.upset[m.name] = true // what was told is told again
		if read := poolstate.ReadNode(n); failing(&read) {
			w.api.editNode(m.name, func(n *corev1.Node) { n.Annotations[v1alpha1.RetryAnnotation] = now })
		}
	}
}

// newcomer is a machine that joins a pool: 0, as our server boots one; 1, the same, labelled as a worker until the
// controller sees what it booted for; 2, one that was installed by others, and has no config.
func (w people) newcomer(p *mcfgv1.MachineConfigPool, zone string, how int) {
	m := &machine{number: len(w.machines), pool: p.Name, zone: zone, disk: disk{inForce: p.Status.Configuration.Name}}
	m.name = machineName(m.number)
	w.machines = append(w.machines, m)
	switch how {
	case 1:
		m.pool = "worker"
		w.tell("a machine %s boots for pool %s in %s, and joins as a worker", m.name, p.Name, m.inForce)
	case 2:
		m.inForce = ""
		w.tell("a machine %s joins pool %s, installed by others", m.name, p.Name)
	default:
		w.tell("a machine %s joins pool %s in %s", m.name, p.Name, m.inForce)
	}
	hardware(w).join(m, m.inForce != "")
	if how == 1 {
		w.api.editNode(m.name, func(n *corev1.Node) { n.Annotations[v1alpha1.FirstPivotConfigAnnotation] = m.inForce })
	}
}

// onGit plays what happens in the repository, and to what is rendered from it.
func (w people) onGit(s Step) {
	newest := w.git[len(w.git)-1]
	next := commit{}
	for pool, name := range newest {
		next[pool] = name
	}
	switch s.Verb {
	case Push:
		var said []string
		for i, p := range w.setup.Pools {
			if s.A>>i&1 == 0 {
				continue
			}
			c := w.make(p.Name, need(s.B%3), ail(s.B/3%len(ailNames)), uint64(s.C))
			next[p.Name] = c.name
			said = append(said, c.String())
		}
		w.tell("commit %d brings %s", len(w.git), strings.Join(said, ", "))
	case Revert:
		back := len(w.git) - 1 - s.A
		if s.A < 1 || back < 0 {
			return
		}
		for pool, name := range w.git[back] {
			next[pool] = name
		}
		w.tell("commit %d goes back to commit %d", len(w.git), back)
	case Vanish, Remake:
		w.vanish(s)
		return
	}
	w.git = append(w.git, next)
}

// vanish deletes a rendered config, or makes it again.
func (w people) vanish(s Step) {
	if s.A < 0 || s.A >= len(w.order) {
		return
	}
	c := w.order[s.A]
	switch is := w.api.configs[c.name] != nil; {
	case is && s.Verb == Vanish:
		delete(w.api.configs, c.name)
		w.tell("somebody deletes MachineConfig %s", c.name)
	case !is && s.Verb == Remake:
		w.api.configs[c.name] = c
		w.tell("MachineConfig %s is made again", c.name)
	}
}

// commit has the config of each pool.
type commit map[string]string

// make renders a new config.
func (w *world) make(pool string, needs need, ails ail, on uint64) *config {
	c := &config{
		name: fmt.Sprintf("rendered-%s-%02d", pool, len(w.order)), pool: pool, commit: len(w.git),
		needs: needs, ails: ails, on: on, refers: w.setup.refers(len(w.order)), files: w.setup.hasFiles(len(w.order)),
	}
	w.made[c.name], w.api.configs[c.name] = c, c
	w.order = append(w.order, c)
	if !w.setup.late(len(w.order) - 1) {
		w.publish(c, nothing, sound, 0)
	}
	return c
}

// render gives a pool what the newest commit has for it.
func (w *world) render(pool string) {
	number := len(w.git) - 1
	name, revision := w.git[number][pool], fmt.Sprintf("main@sha1:%040d", number)
	p := w.api.pools[pool]
	if p.Spec.Configuration.Name == name && p.Annotations[v1alpha1.RevisionAnnotation] == revision {
		return
	}
	if p.Spec.Configuration.Name != name {
		w.tell("pool %s is rendered: its target is %s", pool, name)
	}
	w.api.editPool(pool, func(p *mcfgv1.MachineConfigPool) {
		p.Annotations[v1alpha1.RevisionAnnotation], p.Annotations[v1alpha1.SourceAnnotation] = revision, "fleet"
		p.Spec.Configuration.Name = name
	})
}
