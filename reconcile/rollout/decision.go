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
	// for the informers to show a write, before the object is read from the API server
	overdueAfter = 5 * time.Second
	// per reconciliation, with one request each
	maxOverdueReads = 16
)

// request is what the fleet does not have.
type request struct {
	pool     *mcfgv1.MachineConfigPool
	policies []v1alpha1.RolloutPolicy
	host     string
	// the answers of the pool's gates, and which ones were evaluated
	gates []poolstate.Gate
	asked gatesDue
	// rendered configs that do not exist, although nodes may need them
	missing map[string]bool
	// why no decision may be made: the objects of a source are not one whole revision; or empty
	unsettled string
	// the last known ones
	heartbeats map[string]time.Time
}

// outcome says whether there is a decision, or why not.
type outcome int

const (
	// a decision to execute
	decided outcome = iota
	// the informers do not show all of the controller's own writes yet, so a decision could exceed a budget
	cacheStale
	// the pool or a policy has changed since it was read
	poolChanged
	// the decision depends on gates that were not evaluated; the next reconciliation evaluates them
	gatesUnanswered
)

type decision struct {
	outcome outcome
	facts   poolstate.Facts
	next    poolstate.Decision
	// by name; shared with the informer
	nodes map[string]*corev1.Node
	// sorted by name
	degraded []poolstate.Node
	// The daemon of any node of the pool has ever sent one.
	hasHeartbeats bool
	// A node waits only because its health gates have not been evaluated since it changed.
	nodeGatesUnasked bool
	// old ones that no informer shows yet; their objects are read from the API server
	overdueWrites []objectKey
}

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

// next decides which nodes of a pool are assigned a config, or why none is. A healthy config of facts that does not
// exist is cleared.
func (f *Fleet) next(q request, facts *poolstate.Facts, now time.Time) (poolstate.Decision, outcome) {
	undecided := func(again time.Duration, blocks ...poolstate.Block) poolstate.Decision {
		return poolstate.Decision{
			Record: facts.Care.Record, Counts: CountAt(*facts, now), RequeueAfter: again,
			Blocks: blocks,
		}
	}
	switch {
	case !q.pool.DeletionTimestamp.IsZero() || facts.Target.IsZero():
		return undecided(0), decided
	case q.unsettled != "":
		return undecided(kube.CacheLag, poolstate.Block{Cause: poolstate.CauseApplying, Reason: q.unsettled}), decided
	case q.missing[facts.Target.Config]:
		return undecided(time.Minute, missingConfig(facts.Target.Config)), decided
	}
	if q.missing[facts.Care.Healthy.Config] { // The pool cannot return to a config that does not exist.
		facts.Care.Healthy = v1alpha1.ConfigVersion{}
	}
	next := Next(*facts, now)
	due := newGatesDue(*facts, next)
	f.gatesDue[q.pool.Name] = due
	result := decided
	if !due.answeredBy(q.asked) {
		result = gatesUnanswered
	}
	if q.missing[next.Target.Config] {
		next = undecided(time.Minute, missingConfig(next.Target.Config))
	}
	return next, result
}

// newGatesDue are what a decision depends on.
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

// missingConfig blocks a pool while its config does not exist. The garbage controller creates it again.
func missingConfig(name string) poolstate.Block {
	return poolstate.Block{
		Cause:  poolstate.CauseInvalid,
		Reason: fmt.Sprintf("MachineConfig %s, which nodes of the pool should run, is not on the cluster", name),
	}
}

// fillOtherPools adds how other pools limit this one, and returns the pools whose nodes the decision counts, first the
// pool itself.
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

// resolveWrite stores the API server's version of an object whose write no informer has shown. If the server does not
// have the write either, it failed, the object is deleted, or the server was restored from a backup.
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

// evaluateNodesEvery is for a pool's node gates, while one of them is closed.
const evaluateNodesEvery = 10 * time.Second

// gatesNotEvaluated: they are not since the node changed.
const gatesNotEvaluated = "its health gates are not evaluated yet"

// nodeGates are zero for none.
type nodeGates struct {
	// what a node has to run before its gates are evaluated
	config v1alpha1.ConfigVersion
	// of the config and all gates
	key string
	// of single nodes
	own poolstate.NodeConfigs
}

// nodeGatesAnswer says why a node's gates are closed, or "".
type nodeGatesAnswer struct {
	key string
	// of the node, before the evaluation; after another one, the answer is not used
	changes int
	why     string
}

// newNodeGates is zero if no gate is about nodes, or if the rollout has ended.
func newNodeGates(f poolstate.Facts) nodeGates {
	g, r := nodeGates{config: f.Assigned(), own: f.Care.NodeConfigs}, f.Care.Record
	if f.Target.IsZero() || r.Target() == f.Target && r.Ended != nil {
		return nodeGates{}
	}
	parts := []string{g.config.String()}
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

// closed is empty if the gates of a node are open.
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

// evaluateNodeGates is for all nodes of a pool that run its target. evaluate returns for each why its gates are closed.
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

// pendingWrites are those of this process that its informers do not show yet: a decision on facts from before could
// exceed a budget. The lock of the Fleet guards it.
type pendingWrites struct {
	byObject map[objectKey]pendingWrite
	// the pools whose decisions wait for the objects
	byPool map[string]map[objectKey]bool
}

// objectKey is a Node or, with pool, a MachineConfigPool.
type objectKey struct {
	pool bool
	name string
}

type pendingWrite struct {
	pool string
	// the resource version after the write, or with sure false, because the answer was lost, before it
	version string
	sure    bool
	// when the object was written, or the write last checked
	at time.Time
}

// shownBy reports whether an object of this version includes the write.
func (w pendingWrite) shownBy(version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, w.version)
	if err != nil { // API servers have no versions that are not numbers; in tests, any other version counts as newer.
		return version != w.version || w.sure
	}
	return order > 0 || order == 0 && w.sure
}

// add replaces an earlier write to the same object.
func (w *pendingWrites) add(key objectKey, what pendingWrite) {
	w.remove(key)
	w.byObject[key] = what
	if w.byPool[what.pool] == nil {
		w.byPool[what.pool] = map[objectKey]bool{}
	}
	w.byPool[what.pool][key] = true
}

// shown is for an informer that shows the object.
func (w *pendingWrites) shown(key objectKey, version string) {
	if what, ok := w.byObject[key]; ok && what.shownBy(version) {
		w.remove(key)
	}
}

// remove is for an object that an informer shows or that is deleted.
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

// overdue returns the objects for whose writes the pools have waited since before a time: at most maxOverdueReads, the
// oldest write first.
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

// facts are for the decision about a pool.
func (f *Fleet) facts(pool *mcfgv1.MachineConfigPool, policies []v1alpha1.RolloutPolicy) poolstate.Facts {
	members := f.nodes.in(pool.Name)
	facts := poolstate.Read(pool, policies, f.secrets.Published(), len(members))
	facts.SetNodeConfigs(f.configs.Of)
	facts.Care.Fetches = f.files.New(f.configs.All(facts.Target.Config), f.configs.All(facts.Care.Healthy.Config))
	gates, ahead, pins := newNodeGates(facts), f.daemons.FetchAhead(), f.daemons.PinImages()
	images := f.revisions.ImageSets(pool.Name).Digest
	nodes := make([]poolstate.Node, len(members))
	for i, n := range members {
		nodes[i] = n.read
		nodes[i].Gate, nodes[i].Ahead = gates.closed(n), ahead[n.read.Name]
		nodes[i].Images, nodes[i].Pins = images, pins[n.read.Name]
	}
	facts.SetNodes(nodes)
	return facts
}
