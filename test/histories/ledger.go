package histories

import (
	"maps"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// ledger is what rules need to remember of a history.
type ledger struct {
	broken Rule
	how    string
	// cordons are nodes that an administrator cordoned; opened are those that one uncordoned since their last drain.
	cordons, opened map[string]bool
	// flights are the nodes that were taken out of service by being told, and by which pool.
	flights map[string]string
	// writes counts what a rollout wrote to a node; upset are nodes that something outside happened to since.
	writes map[job]int
	upset  map[string]bool
	// tells counts how often a node was told a config.
	tells int
	// ended are the rollouts of each pool that ended, newest first.
	ended map[string][]ended
}

// ended is how a rollout ended, as somebody knows who sees all nodes.
type ended struct {
	config, secrets string
	result          v1alpha1.RolloutResult
	nodes           int
	began, at       time.Time
	cause           v1alpha1.RolloutCause
}

// job is one rollout's work on one node.
type job struct{ node, pool, target, began string }

func newLedger() ledger {
	return ledger{
		cordons: map[string]bool{}, opened: map[string]bool{}, flights: map[string]string{},
		writes: map[job]int{}, upset: map[string]bool{}, ended: map[string][]ended{},
	}
}

// forget drops what is known of a node that is deleted.
func (l *ledger) forget(node string) {
	delete(l.cordons, node)
	delete(l.flights, node)
	l.disturbed(node)
}

// disturbed notes that people were at a node.
func (l *ledger) disturbed(node string) {
	delete(l.flights, node)
	l.upset[node] = true
}

// cordoned notes an administrator's cordon. On a node that still bears our mark it cannot be told from ours, as
// drain.Tidy says, and is not one.
func (l *ledger) cordoned(n *corev1.Node) {
	if n.Annotations[v1alpha1.CordonedAnnotation] == "" {
		l.cordons[n.Name] = true
	}
}

// watcher holds what is done against the rules.
type watcher struct{ *world }

// begins checks that a machine may begin with a config.
func (w watcher) begins(m *machine, n *corev1.Node, config string) {
	if m.doing != "" {
		w.breaks(OneConfig, "%s begins with %s in the middle of %s", m.name, config, m.doing)
	}
	if w.needs(m.inForce, config) < drained || w.ledger.opened[m.name] {
		return
	}
	if !n.Spec.Unschedulable {
		w.breaks(OneConfig, "%s begins with %s and is open", m.name, config)
	}
	for _, pod := range w.pods.on(m.name) {
		if pod.DeletionTimestamp == nil {
			w.breaks(OneConfig, "%s begins with %s and still runs pod %s", m.name, config, pod.Name)
		}
	}
}

// beforeTell checks what holds for an order whatever the controllers know, right before it is written.
func (w watcher) beforeTell(pool string, f poolstate.Facts, a poolstate.Assignment) {
	w.tellsSecrets(a.Node, a.Config.String())
	if c := w.made[a.Config.String()]; c == nil || c.pool != pool {
		w.breaks(KnownConfig, "%s of pool %s is told %q", a.Node, pool, a.Config)
	}
	live := w.api.pools[pool]
	record, err := v1alpha1.ParseRolloutRecord(live.Annotations[v1alpha1.RolloutAnnotation])
	if err == nil && record.Target() == a.Config && record.Verdict != "" && record.At != nil &&
		!asked(live.Annotations).After(record.At.Time) {
		w.breaks(HaltedConfig, "%s is told %s, about which the pool's record says %s", a.Node, a.Config,
			describeRecord(record))
	}
	atWork := 0
	for node, of := range w.ledger.flights {
		if n := w.api.nodes[node]; of == pool && node != a.Node && n != nil && atWorkOn(n) {
			atWork++
		}
	}
	n := w.api.nodes[a.Node]
	if fresh := n != nil && serves(n); fresh && atWork+1 > max(1, budgetOf(f)) {
		w.breaks(InFlight, "%s is told %s while %d others of pool %s are at work, with a budget of %d", a.Node,
			a.Config, atWork, pool, budgetOf(f))
	}
}

// told notes an order that was written.
func (w watcher) told(pool string, f poolstate.Facts, decision poolstate.Decision, a poolstate.Assignment) {
	w.ledger.tells++
	if a.Was.Config != a.Config.Config { // new secrets of a config are no new drain
		delete(w.ledger.opened, a.Node)
	}
	delete(w.ledger.flights, a.Node)
	for i := range f.Nodes {
		// else it is there already, as far as anybody knows
		if n := &f.Nodes[i]; n.Name == a.Node && n.Config.Current != a.Config {
			w.ledger.flights[a.Node] = pool
		}
	}
}

// atWorkOn tells that a node is on its way to what it was told.
func atWorkOn(n *corev1.Node) bool {
	a := n.Annotations
	state := a[v1alpha1.StateAnnotation]
	failed := state == v1alpha1.StateDegraded || state == v1alpha1.StateUnreconcilable
	return !failed && currentOf(n) != desiredOf(n)
}

// serves tells that a node is in service.
func serves(n *corev1.Node) bool {
	read := poolstate.ReadNode(n)
	return !out(&read)
}

// countWrite counts a write of the rollout controller to a node. Nodes that people or fate were at are left out.
func (w watcher) countWrite(node string, f poolstate.Facts, decision poolstate.Decision) {
	if w.ledger.upset[node] {
		return
	}
	j := job{node, f.Pool, decision.Target.String(), decision.Record.Began.String()}
	w.ledger.writes[j]++
	most := 2
	if decision.Record.Fetches {
		most = 3
	}
	if n := w.ledger.writes[j]; n > most {
		w.breaks(TwoWrites, "the rollout of %s writes to %s for the %d. time", decision.Target, node, n)
	}
}

// checkRecord compares a record with the one before.
func (w watcher) checkRecord(was, is v1alpha1.RolloutRecord, f poolstate.Facts) {
	if was.Target() != is.Target() {
		return
	}
	if first := was.Empty && len(f.Nodes) > 0; first || is.Empty != (was.Empty && len(f.Nodes) == 0) {
		if now := w.now.Truncate(time.Second); !first || is.Empty || !is.Began.Time.Equal(now) {
			w.breaks(TrueHistory, "pool %s has its first node at %s, and the rollout of %s is said to begin at %s",
				f.Pool, moment(now), is.Config, moment(is.Began.Time))
		}
		return
	}
	// A retry begins again, and so do nodes that are well after all.
	again := was.Verdict != "" && is.Verdict == ""
	if !again && !was.Began.Equal(&is.Began) && !was.Began.After(w.now) { // else the clock was set back
		w.breaks(KeptRecord, "the rollout of %s began at %s, and now at %s", is.Config, moment(was.Began.Time),
			moment(is.Began.Time))
	}
	if was.Verdict != "" && is.Verdict == "" && is.Ended == nil &&
		(was.At == nil || !f.Care.RetryAt.After(was.At.Time)) {
		w.breaks(KeptRecord, "%s was %s because %s, and now is not, without that anybody asked for it", is.Config,
			was.Verdict, was.Why)
	}
}

// checkHistory notes the rollouts that end with a new record, and compares the pool's history with all of them.
func (w watcher) checkHistory(f poolstate.Facts, is v1alpha1.RolloutRecord, history string) {
	was, all := f.Care.Record, w.ledger.ended[f.Pool]
	over := func(r v1alpha1.RolloutRecord) bool { return r.Ended != nil || r.Verdict != "" }
	replaced := was.Target() != is.Target()
	of := func(r v1alpha1.RolloutRecord) ended {
		e := ended{
			config: r.Config, secrets: r.Secrets, nodes: len(f.Nodes), began: r.Began.Time,
			at: w.now.Truncate(time.Second), cause: r.Cause, result: v1alpha1.RolloutResult(r.Verdict),
		}
		if e.result == "" {
			e.result = v1alpha1.RolloutSuperseded
			if len(f.Nodes) > 0 && !slices.ContainsFunc(f.Nodes, func(n poolstate.Node) bool {
				return !done(&n) || !ready(&n) || n.Config.Current != r.Target()
			}) {
				e.result = v1alpha1.RolloutCompleted
			}
		}
		return e
	}
	if replaced && was.Config != "" && !over(was) {
		all = append([]ended{of(was)}, all...)
	}
	if over(is) && (replaced || !over(was) || was.Verdict != "" && is.Verdict == "") {
		all = append([]ended{of(is)}, all...)
	}
	again := is.Cause == v1alpha1.RolloutCauseRetry || is.Cause == v1alpha1.RolloutCauseRecovery
	if !replaced && was.Verdict != "" && is.Verdict == "" && !again {
		w.breaks(TrueHistory, "%s is tried again, and the cause is %q", is.Config, is.Cause)
	}
	secrets := was.Config == is.Config
	if replaced && secrets != (is.Cause == v1alpha1.RolloutCauseSecrets) {
		w.breaks(TrueHistory, "%s has new secrets: %v, and the cause is %q", is.Config, secrets, is.Cause)
	}
	w.ledger.ended[f.Pool] = all
	w.compareHistory(f.Pool, history)
}

// compareHistory compares the history of a pool with what happened.
func (w watcher) compareHistory(pool, history string) {
	told, err := v1alpha1.ParseRolloutHistory(history)
	if err != nil {
		w.breaks(TrueHistory, "%s", err)
	}
	var want []ended
	for i, e := range w.ledger.ended[pool] {
		bad := e.result == v1alpha1.RolloutWasHalted || e.result == v1alpha1.RolloutWasReverted
		if i < v1alpha1.MaxRolloutHistory || bad && len(want) < v1alpha1.MaxRolloutHistory+v1alpha1.MaxFailedHistory {
			want = append(want, e)
		}
	}
	if len(told) != len(want) {
		w.breaks(TrueHistory, "pool %s has %d recorded rollouts, but %d ended", pool, len(told), len(want))
		return
	}
	for i, o := range told {
		is := ended{
			config: o.Config, secrets: o.Secrets, result: o.Result, nodes: o.Nodes, began: o.Began.Time,
			at: o.Ended.Time, cause: o.Cause,
		}
		if !is.began.Equal(want[i].began) || !is.at.Equal(want[i].at) {
			w.breaks(TrueHistory, "the rollout of %s in pool %s went from %s to %s, and is said to go from %s to %s",
				is.config, pool, moment(want[i].began), moment(want[i].at), moment(is.began), moment(is.at))
		}
		is.began, is.at = want[i].began, want[i].at
		if is != want[i] {
			w.breaks(TrueHistory, "pool %s says %v of a rollout, and it was %v", pool, is, want[i])
		}
	}
}

// checkViews compares what people see of the histories of all pools with what happened.
func (w watcher) checkViews() {
	c := fleet.Cluster{}
	for _, name := range slices.Sorted(maps.Keys(w.api.pools)) {
		c.Pools = append(c.Pools, *w.api.pools[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.api.nodes)) {
		c.Nodes = append(c.Nodes, *w.api.nodes[name])
	}
	all := fleet.New(c, w.now)
	w.checkList(all)
	for _, p := range c.Pools {
		w.compareHistory(p.Name, p.Annotations[v1alpha1.RolloutHistoryAnnotation])
		h, err := history.Of(all, p.Name)
		if err != nil {
			w.breaks(TrueHistory, "%s", err)
			return
		}
		told, _ := v1alpha1.ParseRolloutHistory(p.Annotations[v1alpha1.RolloutHistoryAnnotation])
		rows := h.Rows[max(0, len(h.Rows)-len(told)):]
		if len(rows) < len(told) || len(h.Rows) > len(told)+2 {
			w.breaks(TrueHistory, "people see %d rollouts of pool %s, and %d are recorded", len(h.Rows), p.Name,
				len(told))
			return
		}
		for i, o := range told {
			if r := rows[i]; r.Rendered != o.Config || string(r.Result) != string(o.Result) || r.Nodes != o.Nodes ||
				r.Updated != o.Updated || r.Began == nil || !r.Began.Equal(o.Began.Time) || r.Ended == nil ||
				!r.Ended.Equal(o.Ended.Time) || r.Cause != o.Cause {
				w.breaks(TrueHistory, "people see %v of a rollout in pool %s, and %v is recorded", r, p.Name, o)
			}
		}
	}
}

// checkList checks that the list of all pools tells each of their rollouts once, and only those together that have the
// same cause.
func (w watcher) checkList(f *fleet.Fleet) {
	events, told := history.Events(f, history.All(f), time.Time{}), 0
	for _, alike := range history.Alike(events) {
		told += len(alike)
		pools := map[string]bool{}
		for _, e := range alike {
			if first := alike[0]; e.Cause != first.Cause || e.Revision != first.Revision || e.By != first.By {
				w.breaks(TrueHistory, "people see %v and %v as one event", first.Row, e.Row)
			}
			if pools[e.Pool] {
				w.breaks(TrueHistory, "people see two rollouts of pool %s as one event", e.Pool)
			}
			pools[e.Pool] = true
		}
	}
	if told != len(events) {
		w.breaks(TrueHistory, "people see %d events, and %d happened", told, len(events))
	}
}

// checkStatus compares a pool's status with its nodes.
func (w watcher) checkStatus(pool *mcfgv1.MachineConfigPool, f poolstate.Facts, s mcfgv1.MachineConfigPoolStatus) {
	updated := slices.ContainsFunc(s.Conditions, func(c mcfgv1.MachineConfigPoolCondition) bool {
		return c.Type == mcfgv1.MachineConfigPoolUpdated && c.Status == corev1.ConditionTrue
	})
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if updated && (!done(n) || n.Config.Current != f.Target || !ready(n)) {
			w.breaks(TrueStatus, "pool %s is Updated with %s, but %s runs %s", pool.Name, f.Target, n.Name,
				n.Config.Current)
		}
	}
}
