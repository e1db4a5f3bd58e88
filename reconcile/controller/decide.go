package controller

import (
	"fmt"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

const (
	// doubtful is how old a write may be that no informer shows before the API server is asked about it.
	doubtful = 5 * time.Second
	// doubts is how many such writes are asked about in one look: one request each.
	doubts = 16
)

// question is what a decision needs besides the fleet.
type question struct {
	pool     *mcfgv1.MachineConfigPool
	policies []v1alpha1.RolloutPolicy
	gates    []rollout.Gate
	host     string
	// missing are the rendered configs that nodes may have to be told and that are not on the cluster.
	missing map[string]bool
	// unsettled says why nothing may be decided: what the sources put on the cluster is not one whole revision each.
	unsettled string
	// heartbeats of the nodes' daemons, as they were last read.
	heartbeats map[string]time.Time
	// early: the gates could not be asked, for there was nothing to decide yet.
	early bool
}

// decision is a wave, and what it was decided on.
type decision struct {
	facts rollout.Facts
	wave  rollout.Wave
	// nodes of the wave as the decision saw them, by name; shared with the informer.
	nodes map[string]*corev1.Node
	// degraded nodes by name.
	degraded []rollout.Node
	// heard: the daemon of any node of the pool has ever sent a heartbeat.
	heard bool
	// unasked: nodes are held only because nobody asked about their health gates since they changed.
	unasked bool
	// stale: no informer shows all of our own writes yet, so nothing is decided; written are those to ask about.
	stale   bool
	written []objectKey
	// moved: nor is anything where the pool is another one by now than the question is about.
	moved bool
}

// decide answers a question about one pool.
func (f *Fleet) decide(q question, now time.Time) decision {
	f.mu.Lock()
	defer f.mu.Unlock()
	members := f.roster.Pool(q.pool.Name)
	d := decision{facts: rollout.ReadFacts(q.pool, q.policies, members.Len())}
	d.facts.Host, d.facts.Care.Gates = q.host, q.gates
	sharing := f.around(&d.facts, q, now)
	known := f.pools[q.pool.Name]
	if d.stale = q.early || known == nil || f.written.waits(sharing); d.stale {
		d.written = f.written.since(now.Add(-doubtful), sharing)
		return d
	}
	if d.moved = known.ResourceVersion != q.pool.ResourceVersion; d.moved {
		return d
	}
	if a := f.gates.shut(d.facts); a != nil {
		d.unasked = len(a.nodes) > 0
	}
	switch {
	case !q.pool.DeletionTimestamp.IsZero() || d.facts.Target == "":
		d.wave = rollout.Wave{Record: d.facts.Care.Record, Counts: members.Count(d.facts, now)}
	case q.unsettled != "":
		d.wave = rollout.Wave{Record: d.facts.Care.Record, Counts: members.Count(d.facts, now), LookAgain: lag, Blocks: []rollout.Block{{
			Cause: rollout.CauseApplying, Reason: q.unsettled,
		}}}
	case q.missing[d.facts.Target]:
		d.wave = lost(d.facts, members.Count(d.facts, now), d.facts.Target)
	default:
		if q.missing[d.facts.Care.Healthy] { // nobody can go back to it
			d.facts.Care.Healthy = ""
		}
		if d.wave = members.Next(d.facts, now); q.missing[d.wave.Target] {
			d.wave = lost(d.facts, d.wave.Counts, d.wave.Target)
		}
	}
	d.nodes = named(d.wave, f.nodes)
	d.degraded = members.Degraded()
	for name := range f.gates.held { // no event tells when a gate opens
		if _, ours := members.Node(name); ours && (d.wave.LookAgain == 0 || d.wave.LookAgain > askAllOver) {
			d.wave.LookAgain = askAllOver
		}
	}
	return d
}

// lost is what to do while nobody can be told the config that the pool should run or go back to: wait until it is made
// again.
func lost(f rollout.Facts, counts rollout.Counts, config string) rollout.Wave {
	return rollout.Wave{Record: f.Care.Record, Counts: counts, LookAgain: time.Minute, Blocks: []rollout.Block{{
		Cause: rollout.CauseInvalid, Reason: fmt.Sprintf("MachineConfig %s, which nodes of the pool should run, is not on the cluster", config),
	}}}
}

// around fills in what other pools mean for this one, and returns the pools whose nodes this decision counts, the pool
// itself first.
func (f *Fleet) around(facts *rollout.Facts, q question, now time.Time) (sharing []string) {
	others := rollout.Others{Pools: f.pools, Policies: q.policies, Customs: rollout.NewCustoms(f.allPools())}
	others.Count = func(pool *mcfgv1.MachineConfigPool) rollout.Counts {
		members := f.roster.Pool(pool.Name)
		other := rollout.ReadFacts(pool, q.policies, members.Len())
		other.Host, other.Care.Around.Customs = q.host, others.Customs // so that its nodes are sorted as its own decision sorts them
		f.gates.shut(other)
		return members.Count(other, now)
	}
	ahead, counted := others.Surround(q.pool, facts)
	f.watched[q.pool.Name] = slices.Concat(ahead, counted)
	return append([]string{q.pool.Name}, counted...)
}

// named are the nodes that a wave writes to.
func named(w rollout.Wave, all map[string]*corev1.Node) map[string]*corev1.Node {
	out := map[string]*corev1.Node{}
	add := func(name string) { out[name] = all[name] }
	for _, x := range w.Assign {
		add(x.Node)
	}
	for _, x := range w.Release {
		add(x.Node)
	}
	for _, x := range w.Label {
		add(x.Node)
	}
	for _, name := range w.Taint {
		add(name)
	}
	for _, name := range w.Untaint {
		add(name)
	}
	return out
}

// asked takes the API server's word about a write that no informer shows: where the server does not have it either, the
// write was not done, or the object is gone, or the server was restored from a backup.
func (f *Fleet) asked(key objectKey, version string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what, ok := f.written.pending[key]
	switch {
	case !ok:
	case version == "" || !what.shownBy(version):
		f.written.drop(key)
	default: // the informer is late
		what.at = now
		f.written.pending[key] = what
	}
}
