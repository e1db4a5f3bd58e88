package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// evaluation depends on the nodes' reports.
type evaluation struct {
	poolstate.Facts
	now time.Time
	// the new one, which determines the target of the nodes
	record v1alpha1.RolloutRecord
	// The rollout begins with this decision.
	begins bool
	nodes  poolstate.Members
	// when the next decision may differ without an event; zero for never. So in the results of other steps.
	again time.Time
}

// evaluate reads what the nodes report: it updates the record, ends the rollout if too many nodes failed, and
// classifies the nodes for the config that they are assigned.
func evaluate(f poolstate.Facts, now time.Time) evaluation {
	if !areSorted(f.Nodes) {
		f.Nodes = slices.SortedFunc(slices.Values(f.Nodes), func(a, b poolstate.Node) int {
			return strings.Compare(a.Name, b.Name)
		})
	}
	e := evaluation{Facts: f, now: now, record: f.Care.Record}
	if f.Target.IsZero() {
		e.nodes = classifyFor(f, f.Target)
		return e
	}
	e = continueRecord(e)
	e.nodes = classifyFor(f, assignedConfig(f, e.record))
	e = judge(e)
	if target := assignedConfig(f, e.record); target != e.nodes.Target {
		e.nodes = classifyFor(f, target)
	}
	return e
}

// areSorted copies no node, which takes longer than to compare its name.
func areSorted(nodes []poolstate.Node) bool {
	for i := 1; i < len(nodes); i++ {
		if nodes[i].Name < nodes[i-1].Name {
			return false
		}
	}
	return true
}

// continueRecord replaces a record of another config, and lifts a verdict if a user requested a retry after it.
func continueRecord(e evaluation) evaluation {
	r := e.record
	if r.Config == "" {
		r.SetLastHealthy(e.Care.Healthy)
	}
	if r.Target() != e.Target {
		e.record, e.begins = newRecord(e, r), true
		return e
	}
	if r.Verdict != "" { // The record with this verdict may be from an older version of the controller.
		r.SetLastHealthy(lastHealthy(e.Facts, r.LastHealthy()))
		r.SetReturnsTo(e.Facts.Secrets.AtReturn(r.ReturnsTo(), e.Target))
	}
	r.Fetches = r.Fetches || e.Care.Fetches
	if r.Began.After(e.now) { // Began is in the future, so the clock was set back.
		r.Began = stamp(e.now)
	}
	if r.Empty && len(e.Nodes) > 0 {
		r.Empty, r.Began, r.UpdatedBefore = false, stamp(e.now), updatedTo(e, e.Target)
	}
	retry := r.Verdict != "" && !e.Care.RetryAt.IsZero() && (r.At == nil || e.Care.RetryAt.After(r.At.Time))
	if !retry {
		e.record = r
		return e
	}
	if r.Verdict == v1alpha1.RolloutReverted {
		r.Steps = 0 // The steps begin again, because the nodes returned to the earlier config.
	}
	r.RolloutEnd, r.WellSince, r.Forgiven = v1alpha1.RolloutEnd{}, nil, nil
	r.Cause, r.By = v1alpha1.RolloutCauseRetry, e.Care.RetriedBy
	r.Began, r.UpdatedBefore = stamp(e.now), updatedTo(e, e.Target)
	e.record, e.begins, e.nodes = r, true, classifyFor(e.Facts, e.Target)
	return retryFailed(e)
}

// retryFailed forgives the nodes that failed the target, because a user requested a retry. Others wait for those that
// report a failure. A node that drains for its own next try reports the earlier failure until that try ends.
func retryFailed(e evaluation) evaluation {
	failed, wait := failedNodes(e)
	var names []string
	for _, m := range failed {
		names = append(names, m.Name)
		if m.Failed {
			names = append(names, m.Name+again)
		}
	}
	for _, m := range e.nodes.Occupying {
		if m.Assigned && m.Step.Draining && m.Failing() && !m.FailedOther(e.nodes.Target) {
			names = append(names, m.Name, m.Name+again)
		}
	}
	e.record, e.again = withForgiven(e.record, names), earliest(e.again, wait)
	return e
}

// newRecord is for a new rollout of the pool's target, after was.
func newRecord(e evaluation, was v1alpha1.RolloutRecord) v1alpha1.RolloutRecord {
	r := v1alpha1.RolloutRecord{
		Requester: e.Requester, Began: stamp(e.now), Before: was.Config, UpdatedBefore: updatedTo(e, e.Target),
		Fetches: e.Care.Fetches, Empty: len(e.Nodes) == 0,
	}
	r.SetTarget(e.Target)
	if r.Config == was.Config {
		r.Cause, r.By = v1alpha1.RolloutCauseSecrets, ""
	}
	healthy := was.LastHealthy()
	if reachedAllThatReport(e.Facts, was) {
		healthy = was.Target()
	}
	r.SetLastHealthy(lastHealthy(e.Facts, healthy))
	return r
}

// reachedAllThatReport reports whether all nodes are healthy with the config of a record. Those whose kubelets do not
// report count only if the config may be the cause.
func reachedAllThatReport(f poolstate.Facts, r v1alpha1.RolloutRecord) bool {
	if r.Config == "" || r.Verdict != "" {
		return false
	}
	nodes, silent := classifyFor(f, r.Target()), 0
	if nodes.Total.Healthy == 0 {
		return false
	}
	for _, m := range nodes.Occupying { // A node that is not Ready takes a place in the budget.
		neverGot := !m.Assigned || !m.Health.Since.IsZero() && m.Health.Since.Before(r.Began.Time)
		if m.Health.Silence != "" && !m.Updated && neverGot {
			silent++
		}
	}
	return nodes.Total.Healthy+silent == nodes.Total.Nodes
}

func classifyFor(f poolstate.Facts, target v1alpha1.ConfigVersion) poolstate.Members {
	p := poolstate.PoolSettings{Target: f.Target, Host: f.Host}
	for _, s := range f.Care.Pace.Steps {
		if p.Canary == nil && s.Selector != nil {
			p.Canary = s.Selector
		}
	}
	if f.Pool == membership.Worker {
		p.Customs = f.Care.Around.Customs
	}
	return poolstate.Classify(f.Care.NodeConfigs.InTermsOf(f.Nodes, f.Preferred(target)...), target, p)
}

// assignedConfig returns what nodes are assigned: the pool's target or, in a reverted pool, the earlier config.
func assignedConfig(f poolstate.Facts, r v1alpha1.RolloutRecord) v1alpha1.ConfigVersion {
	if r.Verdict == v1alpha1.RolloutReverted {
		return r.ReturnsTo()
	}
	return f.Target
}

// judge ends the rollout if a job or too many nodes failed, and records that all nodes are healthy with the target.
// After that, no verdict ends the rollout, because the config does not cause a later failure. A node that fails later
// keeps its place in the budget.
func judge(e evaluation) evaluation {
	r := e.record
	if r.Ended == nil && r.Verdict != v1alpha1.RolloutReverted && e.nodes.Total.Nodes > 0 &&
		e.nodes.Total.Healthy == e.nodes.Total.Nodes {
		settling := findSettling(e)
		e.again = earliest(e.again, settling.again)
		if settling.nodes == 0 {
			at := stamp(e.now)
			next := v1alpha1.RolloutRecord{
				Requester: r.Requester, Began: r.Began, Before: r.Before, UpdatedBefore: r.UpdatedBefore,
				Steps: r.Steps, Ended: &at, Fetches: r.Fetches,
			}
			next.SetTarget(r.Target())
			next.SetLastHealthy(r.Target())
			if r.Verdict != "" { // The nodes recovered after a halt, which is in the history already.
				next.Cause, next.By, next.UpdatedBefore = v1alpha1.RolloutCauseRecovery, "", r.Updated
				if next.Began = at; r.At != nil && r.At.Before(&at) {
					next.Began = *r.At
				}
				e.begins = true
			}
			e.record, r = next, next
		}
	}
	if r.Verdict != "" {
		return e
	}
	e = countAgain(e)
	if settled(e) {
		return e
	}
	end, again := findFailure(e)
	e.again = earliest(e.again, again)
	if end.Verdict == "" {
		return e
	}
	end.Updated = e.nodes.Counts.Updated
	at := stamp(e.now)
	// RetryAt can be later than now if a clock was changed or a user's is ahead.
	if e.Care.RetryAt.After(at.Time) {
		at = *stampUp(e.Care.RetryAt)
	}
	e.record.RolloutEnd, e.record.WellSince, e.record.Forgiven = end, nil, nil
	back := e.Facts.Secrets.AtReturn(r.LastHealthy(), e.Target)
	if e.Care.Pace.Failures.Action == v1alpha1.FailureRevert && !e.Care.Healthy.IsZero() && !back.IsZero() &&
		back != e.Target && e.Care.NodeConfigs.Knows(back) {
		e.record.Verdict = v1alpha1.RolloutReverted
		e.record.SetReturnsTo(back)
	}
	e.record.At = &at
	return e
}

// countAgain removes the forgiven nodes that have changed their state or are gone, so that their failures count again.
func countAgain(e evaluation) evaluation {
	changed := func(entry string) bool { return hasChanged(e, entry) }
	if forgiven := e.record.Forgiven; slices.ContainsFunc(forgiven, changed) {
		e.record.Forgiven = slices.DeleteFunc(slices.Clone(forgiven), changed)
		if len(e.record.Forgiven) == 0 {
			e.record.Forgiven = nil
		}
	}
	if len(retriedNodes(e.record)) > 0 {
		e.again = earliest(e.again, patientUntil(e))
	}
	return e
}

// hasChanged reports whether an entry of RolloutRecord.Forgiven does not apply any more.
func hasChanged(e evaluation, entry string) bool {
	forgiven := e.record.Forgiven
	name, suffix, _ := strings.Cut(entry, "/")
	m := e.nodes.ByName(name)
	if m == nil || !m.Assigned {
		return true
	}
	retryEnded := !e.now.Before(patientUntil(e)) || failedAgain(e, m)
	switch suffix {
	case away[1:]:
		return m.Health.Trouble == ""
	case again[1:]:
		failedSince := m.Failed && !slices.Contains(forgiven, name)
		return retryEnded || failedSince || m.Healthy
	}
	return !m.Failing() && !notReadySinceStart(e.record, m) || retryEnded && slices.Contains(forgiven, name+again)
}

// failedAgain reports whether a node failed once more after a user requested a retry, by its daemon.
func failedAgain(e evaluation, m *poolstate.Member) bool {
	requested := e.Care.RetryAt
	return m.Failed && m.Failure.Version() == e.nodes.Target && m.Failure.Retry != nil && !requested.IsZero() &&
		!m.Failure.Retry.Time.Before(requested)
}

// findFailure is zero if no job and not too many nodes failed.
func findFailure(e evaluation) (end v1alpha1.RolloutEnd, again time.Time) {
	for _, g := range e.Care.Gates {
		if g.Verdict == poolstate.GateFailed {
			return v1alpha1.RolloutEnd{Verdict: v1alpha1.RolloutHalted, Gate: g.Name, Why: "gate " + g.Name +
				" failed" + poolstate.Quote(g.Why, poolstate.MaxVerdictReason)}, again
		}
	}
	failed, again := failedNodes(e)
	failed = slices.DeleteFunc(failed, func(m *poolstate.Member) bool { return isForgiven(e.record, m) })
	after := e.Care.Pace.Failures.After
	if after < 1 || len(failed) < after {
		return end, again
	}
	end.Verdict = v1alpha1.RolloutHalted
	w := poolstate.Wording{Now: e.now, Target: e.nodes.Target, Stable: true, Most: poolstate.MaxVerdictReason}
	ofRollout := w
	ofRollout.OfTarget = true
	var names, texts []string
	for _, m := range failed {
		node, text := v1alpha1.FailedNode{Node: m.Name, Why: w.State(m.Node)}, ofRollout.State(m.Node)
		if !m.Failing() {
			node.Cause = v1alpha1.FailureLost
			node.Why += fmt.Sprintf(", longer than %s", poolstate.FormatDuration(e.Care.Pace.Failures.NodeDeadline))
			text = node.Why
		} else if m.Failure.Version() == m.Config.Desired {
			node.Cause = m.Failure.Cause
		}
		if names, texts = append(names, m.Name), append(texts, text); len(names) <= poolstate.MaxNamed {
			end.Failed = append(end.Failed, node)
		}
	}
	end.Why = poolstate.Grouped(names, texts)
	return end, again
}

// failedNodes are sorted by name.
func failedNodes(e evaluation) (failed []*poolstate.Member, again time.Time) {
	deadline := e.Care.Pace.Failures.NodeDeadline
	for _, m := range e.nodes.Occupying {
		switch {
		case !m.Assigned:
		case m.Step.Draining: // The node has not tried the config yet, because pods delay its drain.
		case m.Failed:
			failed = append(failed, m)
		case deadline > 0 && notReadySinceStart(e.record, m):
			if age(e.now, m.Health.Since) > deadline {
				failed = append(failed, m)
			} else {
				again = earliest(again, m.Health.Since.Add(deadline+time.Second))
			}
		}
	}
	return failed, again
}

// notReadySinceStart reports whether a node became unhealthy after the rollout began. The config is not the cause of an
// earlier problem.
func notReadySinceStart(r v1alpha1.RolloutRecord, m *poolstate.Member) bool {
	h := m.Health
	return h.Trouble != "" && !h.Since.IsZero() && !h.Since.Before(r.Began.Time)
}

// settled reports whether the whole pool was healthy with the target before, or is now. Then only the budget and the
// windows limit the rollout.
func settled(e evaluation) bool {
	return e.Target == e.record.LastHealthy() || e.record.Ended != nil
}

// earliest does not count zero times.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// age is zero for a time in the future.
func age(now, t time.Time) time.Duration { return max(0, now.Sub(t)) }

// They restrict an entry of RolloutRecord.Forgiven, which names nodes whose failure does not count.
const (
	// The node was not Ready when it was assigned the target, which does not count, but its other failures do.
	away = "/away"
	// A user requested a retry after the node had failed. Until it is healthy, for at most the time patience, no other
	// node is assigned the target. Whether its failure counts depends on the entry without a suffix.
	again = "/again"
)

// patience is how long after a retry a reported failure counts as the one before, if the daemon does not report to
// which retry it belongs.
const patience = 5 * time.Minute

// withForgiven adds to the forgiven nodes.
func withForgiven(r v1alpha1.RolloutRecord, names []string) v1alpha1.RolloutRecord {
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(r.Forgiven, name) })
	if len(names) > 0 {
		r.Forgiven = slices.Sorted(slices.Values(slices.Concat(r.Forgiven, names)))
	}
	return r
}

// patientUntil is until when others wait for retried nodes.
func patientUntil(e evaluation) time.Time {
	if e.Care.RetryAt.IsZero() {
		return e.record.Began.Add(patience)
	}
	return e.Care.RetryAt.Add(patience)
}

// retriedNodes failed the target, and are not healthy yet.
func retriedNodes(r v1alpha1.RolloutRecord) (names []string) {
	for _, entry := range r.Forgiven {
		if name, is := strings.CutSuffix(entry, again); is {
			names = append(names, name)
		}
	}
	return names
}

// isForgiven reports whether a node's failure does not count now.
func isForgiven(r v1alpha1.RolloutRecord, m *poolstate.Member) bool {
	return slices.Contains(r.Forgiven, m.Name) || !m.Failed && wasNotReady(r, m)
}

// wasNotReady reports whether a node was not Ready when it was assigned the target, and has not been since.
func wasNotReady(r v1alpha1.RolloutRecord, m *poolstate.Member) bool {
	return slices.Contains(r.Forgiven, m.Name+away)
}

// updatedTo counts the nodes that run a config, also those that failed another one.
func updatedTo(e evaluation, config v1alpha1.ConfigVersion) int {
	count := 0
	for _, n := range e.Care.NodeConfigs.InTermsOf(e.Nodes, config) {
		if n.UpdatedTo(config) || n.Config.Current == config && n.Failing() {
			count++
		}
	}
	return count
}

// lastHealthy returns that of a record, or without one the config in use.
func lastHealthy(f poolstate.Facts, recorded v1alpha1.ConfigVersion) v1alpha1.ConfigVersion {
	if !recorded.IsZero() {
		return recorded
	}
	return configInUse(f)
}

// configInUse returns the config of a pool, other than its target, that most nodes run, or the first of them by name;
// zero if no node runs another. It replaces the last healthy config if no record names one, for example because the
// pool was deleted with its record.
func configInUse(f poolstate.Facts) v1alpha1.ConfigVersion {
	runs := map[v1alpha1.ConfigVersion]int{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		current := n.Config.Current
		if current == f.Target || !isConfigOf(current.Config, f.Pool) ||
			!f.Care.NodeConfigs.IsPools(current.Config) {
			continue
		}
		// A node with another desired config counts: it got that while it ran its current one. Any other must be
		// healthy.
		if current != n.Config.Desired || n.State == v1alpha1.StateDone && n.Health.Trouble == "" {
			runs[current]++
		}
	}
	var most v1alpha1.ConfigVersion
	for config, n := range runs {
		if n > runs[most] || n == runs[most] && config.String() < most.String() {
			most = config
		}
	}
	return most
}

// isConfigOf reports whether a rendered config is the pool's, by its name. A node that has joined the pool may still
// run one of its earlier pool.
func isConfigOf(config, pool string) bool {
	hash, ok := strings.CutPrefix(config, "rendered-"+pool+"-")
	return ok && hash != "" && !strings.Contains(hash, "-")
}

// mostOfOutcome limits a verdict's reason in the pool's history, in runes.
const mostOfOutcome = 200

// stamp has the precision of a record: whole seconds.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// stampUp rounds up to a whole second, so that no duration is too short.
func stampUp(t time.Time) *metav1.Time {
	up := stamp(t.Add(time.Second - 1))
	return &up
}
