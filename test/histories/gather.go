package histories

import (
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// facts of a pool without what is around it.
func (w rollouts) facts(pool *mcfgv1.MachineConfigPool) poolstate.Facts {
	p := w.proc
	var nodes []poolstate.Node
	for _, m := range w.machines {
		if seen := p.seen(m.name); seen.pool == pool.Name {
			nodes = append(nodes, seen.read)
		}
	}
	f := w.says(pool, len(nodes))
	for i := range nodes {
		nodes[i].Gate = w.nodeGate(nodes[i].Name, f.Care.Pace)
	}
	for i := range nodes {
		if m := truth(w).machineOf(nodes[i].Name); m != nil {
			nodes[i].Ahead = w.setup.ahead(m.number)
		}
	}
	f.Care.Fetches = w.fetches(f)
	f.Nodes, f.Host = nodes, w.setup.Host
	return f
}

// says is what a pool of that many nodes and the policies say. Reading policies takes longest of all, so it is kept.
func (w rollouts) says(pool *mcfgv1.MachineConfigPool, size int) poolstate.Facts {
	said := w.proc.said[pool.Name]
	if said.pool != pool || said.edition != w.edition || said.size != size || said.secrets != w.proc.heardSecrets {
		said = saying{pool, w.edition, size, w.proc.heardSecrets, poolstate.Read(pool, w.policies, w.proc.secrets,
			size)}
		w.proc.said[pool.Name] = said
	}
	return said.facts
}

// nodeGate is why a gate of a node does not hold.
func (w rollouts) nodeGate(name string, p schedule.Pace) string {
	for _, g := range p.Gates {
		if len(g.DaemonSets) > 0 && w.sick[name] {
			return fmt.Sprintf("gate %s: the pod of DaemonSet %s/%s is not ready", g.Name, g.DaemonSets[0].Namespace,
				g.DaemonSets[0].Name)
		}
	}
	return ""
}

// gather finds all that a decision on a pool depends on, in what the watches have shown.
func (w rollouts) gather(pool *mcfgv1.MachineConfigPool) poolstate.Facts {
	f := w.facts(pool)
	c := &f.Care
	ahead, counted := poolstate.Others{
		Pools: w.proc.pools, Policies: w.policies, Customs: w.proc.customs,
		Count: func(other *mcfgv1.MachineConfigPool) poolstate.Counts { return poolstate.Count(w.facts(other)) },
	}.Surround(pool, &f)
	f.HoldForEtcd(etcd(w).reports(), w.now)
	w.proc.watched[pool.Name] = slices.Concat(ahead, counted)
	c.Gates = w.queries(c.Pace.Gates)
	return f
}

// queries are the answers of Prometheus.
func (w rollouts) queries(gates []v1alpha1.HealthGate) []poolstate.Gate {
	var out []poolstate.Gate
	for _, g := range gates {
		if g.Prometheus == nil {
			continue
		}
		answer := poolstate.Gate{Name: g.Name, Verdict: poolstate.GateOpen}
		if w.gate != 0 {
			answer.Verdict, answer.Why = poolstate.GateWaits, "the query answers 0"
		}
		out = append(out, answer)
	}
	return out
}

// jobs are the answers of jobs.
func (w rollouts) jobs(gates []v1alpha1.HealthGate) []poolstate.Gate {
	var out []poolstate.Gate
	for _, g := range gates {
		if g.Job == nil {
			continue
		}
		answers := []poolstate.Gate{
			{Name: g.Name, Verdict: poolstate.GateOpen}, {
				Name: g.Name, Verdict: poolstate.GateWaits,
				Why: "the job runs",
			}, {Name: g.Name, Verdict: poolstate.GateFailed, Why: "the job failed"},
		}
		out = append(out, answers[w.gate])
	}
	return out
}

// withTaint is taints with our own, or without.
func withTaint(taints []corev1.Taint, on bool) []corev1.Taint {
	out := make([]corev1.Taint, 0, len(taints)+1)
	for _, t := range taints {
		if t.Key != v1alpha1.UpdateInProgressTaint {
			out = append(out, t)
		}
	}
	if on {
		out = append(out, corev1.Taint{Key: v1alpha1.UpdateInProgressTaint, Effect: corev1.TaintEffectPreferNoSchedule})
	}
	return out
}
