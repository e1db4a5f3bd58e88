package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// fleet is a cluster's pools and nodes as the rollout sees them at one moment. It judges nothing: waves, counts and the
// reasons of nodes are the rollout's own answers to what the objects say.
type fleet struct {
	Cluster
	now    time.Time
	pools  map[string]*poolView
	others rollout.Others
	// torn are nodes that nobody may touch, nobodys those that no pool selects; both by name.
	torn, nobodys map[string]NodeRow
}

// poolView is one pool, its nodes, and what the rollout says of them.
type poolView struct {
	object *mcfgv1.MachineConfigPool
	facts  rollout.Facts
	wave   rollout.Wave
	// lost says in words that nothing could be decided; empty: wave is the rollout's answer.
	lost string
	// rows are the nodes by name, waits why each of them does not run the target.
	rows  []NodeRow
	waits map[string]rollout.Waiting
	// daemons are the heartbeats of the nodes' daemons; now is when it is looked at.
	daemons map[string]v1alpha1.DaemonReport
	now     time.Time
	// unwell are the nodes that are not known, or not Ready without being updated.
	unwell []unwellNode
	// plain are the pool's numbers without regard to other pools, once they were asked for.
	plain *rollout.Counts
}

func newFleet(c Cluster, now time.Time) *fleet {
	f := &fleet{Cluster: c, now: now, pools: map[string]*poolView{}, torn: map[string]NodeRow{}, nobodys: map[string]NodeRow{}}
	objects := make([]*mcfgv1.MachineConfigPool, len(c.Pools))
	for i := range c.Pools {
		objects[i] = &c.Pools[i]
	}
	f.others = rollout.Others{
		Pools: map[string]*mcfgv1.MachineConfigPool{}, Policies: c.Policies, Customs: rollout.NewCustoms(objects),
		Count: func(p *mcfgv1.MachineConfigPool) rollout.Counts { return f.count(f.pools[p.Name]) },
	}
	nodes := f.sort(rollout.NewPools(objects))
	for _, p := range objects {
		v := &poolView{object: p, facts: rollout.ReadFacts(p, c.Policies, len(nodes[p.Name])), daemons: c.Daemons, now: now}
		v.facts.Nodes, v.facts.Timestamps = nodes[p.Name], c.Timestamps
		slices.SortFunc(v.facts.Nodes, func(a, b rollout.Node) int { return strings.Compare(a.Name, b.Name) })
		v.hear()
		f.pools[p.Name], f.others.Pools[p.Name] = v, p
	}
	for _, p := range objects {
		f.look(f.pools[p.Name])
	}
	return f
}

// sort puts each node to its pool, or to those that have none.
func (f *fleet) sort(pools rollout.Pools) map[string][]rollout.Node {
	out := map[string][]rollout.Node{}
	for i := range f.Nodes {
		n := rollout.ReadNode(&f.Nodes[i])
		row := NodeRow{Name: n.Name, Current: n.Config.Current, Desired: n.Config.Desired, State: cmp.Or(n.State, unknown)}
		switch pool, _, err := pools.For(n); {
		case err != nil:
			row.State, row.Cause, row.Reason = "Conflict", CauseConflict, err.Error()
			f.torn[n.Name] = row
		case pool == "":
			row.Cause, row.Reason = CauseNoPool, "no pool selects it, so Bunsen does not manage it"
			f.nobodys[n.Name] = row
		default:
			out[pool] = append(out[pool], n)
		}
	}
	return out
}

// rolloutBlocked is the condition in which the controller says why a pool does not go on.
const rolloutBlocked mcfgv1.MachineConfigPoolConditionType = "RolloutBlocked"

// condition of the pool; the zero one where it has none of that type.
func (v *poolView) condition(kind mcfgv1.MachineConfigPoolConditionType) mcfgv1.MachineConfigPoolCondition {
	for _, c := range v.object.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return mcfgv1.MachineConfigPoolCondition{}
}

// hear fills in what only the controller can ask: the answers of health gates, as it wrote them into the pool's condition.
// A gate that it does not complain of is open.
func (v *poolView) hear() {
	said := map[string]string{}
	if c := v.condition(rolloutBlocked); c.Status == corev1.ConditionTrue {
		for _, part := range strings.Split(c.Message, "; ") {
			if who, why, ok := strings.Cut(part, ": "); ok {
				said[who] = why
			}
		}
	}
	for _, g := range v.facts.Care.Pace.Gates {
		a := rollout.Gate{Name: g.Name, Verdict: rollout.GateOpen}
		if why, closed := said["gate "+g.Name]; closed {
			a.Verdict, a.Why = rollout.GateWaits, why
		}
		if g.Job != nil || g.Prometheus != nil {
			v.facts.Care.Gates = append(v.facts.Care.Gates, a)
		}
	}
	for i := range v.facts.Nodes {
		if n := &v.facts.Nodes[i]; n.Done() {
			n.Gate = said[n.Name]
		}
	}
}

// look asks the rollout what it would do with a pool now.
func (f *fleet) look(v *poolView) {
	target := v.facts.Target
	f.others.Surround(v.object, &v.facts)
	if target != "" && f.Rendered != nil && !slices.ContainsFunc(f.Rendered, func(r RenderedRow) bool { return r.Name == target }) {
		v.lost = fmt.Sprintf("MachineConfig %s, which the pool should run, is not on the cluster", target)
	}
	applying, waits := v.applying()
	if v.lost != "" || waits || !v.object.DeletionTimestamp.IsZero() {
		v.wave = rollout.Wave{Record: v.facts.Care.Record, Target: target, Counts: f.count(v)}
		switch {
		case v.lost != "":
			v.wave.Blocks = []rollout.Block{{Cause: rollout.CauseInvalid, Reason: v.lost}}
		case waits:
			v.wave.Blocks = []rollout.Block{applying}
		}
	} else {
		v.wave = rollout.Next(v.facts, f.now)
	}
	v.explain(f.now)
}

// explain asks why each node does not run what the pool should run.
func (v *poolView) explain(now time.Time) {
	v.waits = map[string]rollout.Waiting{}
	if applying, waits := v.applying(); waits {
		for i := range v.facts.Nodes {
			if n := &v.facts.Nodes[i]; !n.UpdatedTo(v.facts.Target) {
				v.waits[n.Name] = rollout.Waiting{Node: n.Name, Cause: applying.Cause, Reason: applying.Reason}
			}
		}
	} else if v.lost == "" {
		for _, w := range rollout.Explain(v.facts, v.wave, now) {
			v.waits[w.Node] = w
		}
	}
	for _, a := range v.wave.Assign {
		v.waits[a.Node] = rollout.Waiting{Node: a.Node, Cause: rollout.CauseNext, Reason: "next to be told " + a.Config}
	}
	v.rows = make([]NodeRow, len(v.facts.Nodes))
	for i := range v.facts.Nodes {
		v.rows[i] = v.row(&v.facts.Nodes[i], now)
	}
	v.unwell = unwellNodes(v)
}

// count is a pool's numbers as another pool's decision sees them.
func (f *fleet) count(v *poolView) rollout.Counts {
	if v.plain == nil {
		facts := v.facts
		facts.Care.Around = rollout.Around{Customs: f.others.Customs}
		counts := rollout.Next(facts, f.now).Counts
		v.plain = &counts
	}
	return *v.plain
}
