package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/health"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	corev1 "k8s.io/api/core/v1"
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

// newGatesDue returns the gates on which a decision depends.
func newGatesDue(f poolstate.Facts, w poolstate.Decision) gatesDue {
	var due gatesDue
	if f.Paused || w.Counts.Converged() {
		return due
	}
	// No job starts before the record shows that the rollout has begun.
	recorded := w.Record.Began.Equal(&f.Care.Record.Began)
	for _, g := range f.Care.Pace.Gates {
		due.queries = due.queries || g.Prometheus != nil
		due.jobs = due.jobs || g.Job != nil && w.Stage.Due && recorded
	}
	if due.jobs {
		due.config, due.began, due.step = w.Record.Target(), w.Record.Began.Unix(), w.Stage.Step
	}
	return due
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

// evaluateNodesEvery is the maximum interval between two evaluations of a pool's node gates while one of them is
// closed.
const evaluateNodesEvery = 10 * time.Second

// gatesNotEvaluated is the reason for a node whose health gates have not been evaluated since the node changed.
const gatesNotEvaluated = "its health gates are not evaluated yet"

// nodeGates are the gates of each node of a pool. The zero value has no gates.
type nodeGates struct {
	// config is the config that a node has to run before its gates are evaluated.
	config string
	// key identifies the config and all gates.
	key string
	// own has the configs of single nodes.
	own poolstate.NodeConfigs
}

// nodeGatesAnswer is the stored answer of a node's gates: why they are closed, or "" if they are open.
type nodeGatesAnswer struct {
	key string
	// changes is the node's number of changes before the evaluation. If the node has changed again since then, the
	// answer is not used.
	changes int
	why     string
}

// newNodeGates returns the gates of the nodes of a pool. newNodeGates returns the zero value if no gate is about nodes,
// or if the rollout has ended.
func newNodeGates(f poolstate.Facts) nodeGates {
	g, r := nodeGates{config: f.Target, own: f.Care.NodeConfigs}, f.Care.Record
	if r.Target() == f.Target && r.Verdict == v1alpha1.RolloutReverted {
		g.config = r.ReturnsTo()
	}
	if f.Target == "" || r.Target() == f.Target && r.Ended != nil {
		return nodeGates{}
	}
	parts := []string{g.config}
	for i := range f.Care.Pace.Gates {
		for _, ds := range f.Care.Pace.Gates[i].DaemonSets {
			parts = append(parts, f.Care.Pace.Gates[i].Name+" "+ds.Namespace+"/"+ds.Name)
		}
	}
	if len(parts) == 1 {
		return nodeGates{}
	}
	g.key = strings.Join(parts, "\n")
	return g
}

// closed returns why the gates of a node are closed; empty if they are open.
func (g nodeGates) closed(n *fleetNode) string {
	switch {
	case g.key == "" || !g.isUpdated(n):
		return ""
	case n.gates.key != g.key || n.gates.changes != n.changes:
		return gatesNotEvaluated
	}
	return n.gates.why
}

// isUpdated reports whether a node runs its config of the pool's config.
func (g nodeGates) isUpdated(n *fleetNode) bool {
	return n.read.UpdatedTo(g.own.Own(g.config, n.read.Name))
}

// evaluateNodeGates evaluates the gates of all nodes of a pool that run its target. The function evaluate returns for
// each node why its gates are closed.
func (f *Fleet) evaluateNodeGates(facts poolstate.Facts, evaluate func([]*corev1.Node) []string) {
	gates := newNodeGates(facts)
	if gates.key == "" {
		return
	}
	f.mu.Lock()
	asked := slices.DeleteFunc(f.nodes.in(facts.Pool), func(n *fleetNode) bool { return !gates.isUpdated(n) })
	objects, answers := make([]*corev1.Node, len(asked)), make([]nodeGatesAnswer, len(asked))
	for i, n := range asked {
		objects[i], answers[i] = n.object, nodeGatesAnswer{key: gates.key, changes: n.changes}
	}
	f.mu.Unlock()
	why := evaluate(objects)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, n := range asked {
		answers[i].why = why[i]
		n.gates = answers[i]
	}
}

// pendingWrites has the writes of this process that its informers do not show yet. A decision on facts from before the
// last write could exceed a budget. The lock of the Fleet guards pendingWrites.
type pendingWrites struct {
	byObject map[objectKey]pendingWrite
	// byPool are the keys of the objects, by the pool whose decisions wait for them.
	byPool map[string]map[objectKey]bool
}

// objectKey names a Node or, if pool is true, a MachineConfigPool.
type objectKey struct {
	pool bool
	name string
}

// pendingWrite is a write that no informer has shown yet.
type pendingWrite struct {
	// pool is the pool whose decisions wait for the write.
	pool string
	// version is the resource version after the write. If sure is false, the answer was lost, and version is the
	// version before the write.
	version string
	sure    bool
	// at is when the controller wrote the object, or last checked the write.
	at time.Time
}

// shownBy reports whether an object with this version includes the write.
func (w pendingWrite) shownBy(version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, w.version)
	if err != nil { // API servers have no versions that are not numbers; in tests, any other version counts as newer.
		return version != w.version || w.sure
	}
	return order > 0 || order == 0 && w.sure
}

// add stores a write. add replaces an earlier write to the same object.
func (w *pendingWrites) add(key objectKey, what pendingWrite) {
	w.remove(key)
	w.byObject[key] = what
	if w.byPool[what.pool] == nil {
		w.byPool[what.pool] = map[objectKey]bool{}
	}
	w.byPool[what.pool][key] = true
}

// shown removes a write if an informer shows it.
func (w *pendingWrites) shown(key objectKey, version string) {
	if what, ok := w.byObject[key]; ok && what.shownBy(version) {
		w.remove(key)
	}
}

// remove removes the write to an object, because an informer shows it or the object is deleted.
func (w *pendingWrites) remove(key objectKey) {
	what, ok := w.byObject[key]
	if !ok {
		return
	}
	delete(w.byObject, key)
	delete(w.byPool[what.pool], key)
	if len(w.byPool[what.pool]) == 0 {
		delete(w.byPool, what.pool)
	}
}

// overdue returns the objects for whose writes the pools have waited since before a given time: at most
// maxOverdueReads, the oldest write first.
func (w *pendingWrites) overdue(before time.Time, pools []string) []objectKey {
	var out []objectKey
	for _, p := range pools {
		for key := range w.byPool[p] {
			if w.byObject[key].at.Before(before) {
				out = append(out, key)
			}
		}
	}
	slices.SortFunc(out, func(a, b objectKey) int {
		return cmp.Or(w.byObject[a].at.Compare(w.byObject[b].at), strings.Compare(a.name, b.name))
	})
	return out[:min(len(out), maxOverdueReads)]
}

// hasAny reports whether a decision about any of the pools has to wait.
func (w *pendingWrites) hasAny(pools []string) bool {
	for _, p := range pools {
		if len(w.byPool[p]) > 0 {
			return true
		}
	}
	return false
}
