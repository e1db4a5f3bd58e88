package rollout

import (
	"fmt"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/health"
	"github.com/bunsen-os/bunsen/reconcile/kube"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

const (
	// overdueAfter is how long the controller waits for the informers to show a write, before it reads the object from
	// the API server.
	overdueAfter = 5 * time.Second
	// maxOverdueReads is how many overdue objects one reconciliation reads, with one request each.
	maxOverdueReads = 16
)

// request has the input of a decision that the fleet does not have.
type request struct {
	pool     *mcfgv1.MachineConfigPool
	policies []v1alpha1.RolloutPolicy
	host     string
	// gates are the answers of the pool's gates. asked are the gates that the Evaluator has evaluated.
	gates []poolstate.Gate
	asked gatesDue
	// missing are rendered configs that do not exist, although nodes may need them.
	missing map[string]bool
	// unsettled is why no decision may be made: the objects of a source are not one whole revision. unsettled is empty
	// if a decision may be made.
	unsettled string
	// heartbeats are the last known heartbeats of the nodes' daemons.
	heartbeats map[string]time.Time
}

// outcome says whether a request led to a decision, or why it did not.
type outcome int

const (
	// decided means that there is a decision to execute.
	decided outcome = iota
	// cacheStale means that the informers do not show all of the controller's own writes yet, so a decision could
	// exceed a budget.
	cacheStale
	// poolChanged means that the pool or a policy has changed since the controller read it.
	poolChanged
	// gatesUnanswered means that the decision depends on gates that were not evaluated. The next reconciliation
	// evaluates the gates.
	gatesUnanswered
)

// decision is the result of a request, with its facts.
type decision struct {
	outcome outcome
	facts   poolstate.Facts
	next    poolstate.Decision
	// nodes are the nodes on which the decision is based, by name. The Nodes are shared with the informer.
	nodes map[string]*corev1.Node
	// degraded are the degraded nodes, sorted by name.
	degraded []poolstate.Node
	// hasHeartbeats reports whether the daemon of any node of the pool has ever sent a heartbeat.
	hasHeartbeats bool
	// nodeGatesUnasked reports whether a node waits only because its health gates have not been evaluated since the
	// node changed.
	nodeGatesUnasked bool
	// overdueWrites are old writes that no informer shows yet. The controller reads their objects from the API server.
	overdueWrites []objectKey
}

// decide makes the decision about one pool.
func (f *Fleet) decide(q request, now time.Time) decision {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := decision{facts: f.facts(q.pool, q.policies)}
	d.facts.Host, d.facts.Care.Gates = q.host, q.gates
	sharing := f.fillOtherPools(&d.facts, q, now)
	known := f.pools[q.pool.Name]
	if known == nil || f.written.hasAny(sharing) {
		d.outcome, d.overdueWrites = cacheStale, f.written.overdue(now.Add(-overdueAfter), sharing)
		return d
	}
	if known.ResourceVersion != q.pool.ResourceVersion {
		d.outcome = poolChanged
		return d
	}
	d.next, d.outcome = f.next(q, &d.facts, now)
	d.nodes = nodesOf(d.next, f.nodes)
	var silent map[string]time.Time
	if silent, d.hasHeartbeats = health.Silent(d.facts.Nodes, q.heartbeats, now); len(silent) > 0 {
		d.next.Blocks = append(d.next.Blocks, poolstate.SilentBlock(silent))
	}
	for i := range d.facts.Nodes {
		n := &d.facts.Nodes[i]
		if n.Degraded() {
			d.degraded = append(d.degraded, *n)
		}
		d.nodeGatesUnasked = d.nodeGatesUnasked || n.Gate == gatesNotEvaluated
		if n.Gate != "" { // No event reports that a gate opens.
			d.next.RequeueAfter = sooner(d.next.RequeueAfter, evaluateNodesEvery)
		}
	}
	return d
}

// next decides which nodes of a pool are assigned a config, or why no node is. If the healthy config of facts does not
// exist, next clears facts.Care.Healthy.
func (f *Fleet) next(q request, facts *poolstate.Facts, now time.Time) (poolstate.Decision, outcome) {
	undecided := func(again time.Duration, blocks ...poolstate.Block) poolstate.Decision {
		return poolstate.Decision{
			Record: facts.Care.Record, Counts: CountAt(*facts, now), RequeueAfter: again,
			Blocks: blocks,
		}
	}
	switch {
	case !q.pool.DeletionTimestamp.IsZero() || facts.Target == "":
		return undecided(0), decided
	case q.unsettled != "":
		return undecided(kube.CacheLag, poolstate.Block{Cause: poolstate.CauseApplying, Reason: q.unsettled}), decided
	case q.missing[v1alpha1.ConfigName(facts.Target)]:
		return undecided(time.Minute, missingConfig(facts.Target)), decided
	}
	if q.missing[v1alpha1.ConfigName(facts.Care.Healthy)] { // The pool cannot return to a config that does not exist.
		facts.Care.Healthy = ""
	}
	next := Next(*facts, now)
	due := newGatesDue(*facts, next)
	f.gatesDue[q.pool.Name] = due
	result := decided
	if !due.answeredBy(q.asked) {
		result = gatesUnanswered
	}
	if q.missing[v1alpha1.ConfigName(next.Target)] {
		next = undecided(time.Minute, missingConfig(next.Target))
	}
	return next, result
}

// missingConfig blocks a pool while the config that its nodes should run does not exist. The garbage controller creates
// the config again.
func missingConfig(name string) poolstate.Block {
	return poolstate.Block{
		Cause: poolstate.CauseInvalid,
		Reason: fmt.Sprintf("MachineConfig %s, which nodes of the pool should run, is not on the cluster",
			v1alpha1.ConfigName(name)),
	}
}

// fillOtherPools adds to the facts how other pools limit this pool. fillOtherPools returns the pools whose nodes the
// decision counts. The first of them is the pool itself.
func (f *Fleet) fillOtherPools(facts *poolstate.Facts, q request, now time.Time) (sharing []string) {
	others := poolstate.Others{
		Pools: f.pools, Policies: q.policies,
		Customs: poolstate.NewCustoms(sortedPools(f.pools)),
	}
	others.Count = func(pool *mcfgv1.MachineConfigPool) poolstate.Counts {
		return CountAt(f.facts(pool, q.policies), now)
	}
	ahead, counted := others.Surround(q.pool, facts)
	facts.HoldForEtcd(f.daemons.Etcd(), now)
	f.dependsOn[q.pool.Name] = slices.Concat(ahead, counted)
	return append([]string{q.pool.Name}, counted...)
}

// nodesOf returns the nodes to which a decision writes.
func nodesOf(w poolstate.Decision, all fleetNodes) map[string]*corev1.Node {
	out := map[string]*corev1.Node{}
	add := func(name string) { out[name] = all.named(name).object }
	for _, x := range w.Assign {
		add(x.Node)
	}
	for _, x := range w.Release {
		add(x.Node)
	}
	for _, x := range w.Announce {
		add(x.Node)
	}
	for _, x := range w.Label {
		add(x.Node)
	}
	for _, name := range slices.Concat(w.Taint, w.Untaint) {
		add(name)
	}
	return out
}

// resolveWrite stores the version of an object that the API server has, if no informer has shown a write to the object.
// If the server does not have the write either, there are three possible causes: the write failed, the object is
// deleted, or the server was restored from a backup.
func (f *Fleet) resolveWrite(key objectKey, version string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what, ok := f.written.byObject[key]
	switch {
	case !ok:
	case version == "" || !what.shownBy(version):
		f.written.remove(key)
	default: // The server has the write, so only the informer is stale.
		what.at = now
		f.written.byObject[key] = what
	}
}
