package rollout

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// continueRecord returns the record of the rollout of the pool's target. continueRecord replaces a record of another
// config, and lifts a verdict if a user requested a retry after the verdict.
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

// newRecord returns the record of a new rollout of the pool's target. The parameter was is the record of the previous
// rollout.
func newRecord(e evaluation, was v1alpha1.RolloutRecord) v1alpha1.RolloutRecord {
	r := v1alpha1.RolloutRecord{
		Requester: e.Requester, Began: stamp(e.now), Before: was.Config, UpdatedBefore: updatedTo(e, e.Target),
		Fetches: e.Care.Fetches,
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

// updatedTo counts the nodes that run a config. A node that failed another config still runs its current config.
func updatedTo(e evaluation, config string) int {
	count := 0
	for _, n := range e.Care.NodeConfigs.InTermsOf(e.Nodes, config) {
		if n.UpdatedTo(config) || n.Config.Current == config && n.Failing() {
			count++
		}
	}
	return count
}

// lastHealthy returns the last healthy config in a record. If the record has none, lastHealthy returns the config in
// use.
func lastHealthy(f poolstate.Facts, recorded string) string {
	if recorded != "" {
		return recorded
	}
	return configInUse(f)
}

// configInUse returns the config of a pool, other than its target, that most nodes run. If two configs have the same
// number of nodes, configInUse returns the first by name. The result is empty if no node runs another config. The
// result replaces the last healthy config if no record names one, for example because the pool was deleted with its
// record.
func configInUse(f poolstate.Facts) string {
	runs := map[string]int{}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		current := n.Config.Current
		if current == f.Target || !isConfigOf(current, f.Pool) || !f.Care.NodeConfigs.IsPools(current) {
			continue
		}
		// A node that has another desired config counts, because it got this config while it ran its current config. A
		// node that has no other desired config must be healthy.
		if current != n.Config.Desired || n.State == v1alpha1.StateDone && n.Health.Trouble == "" {
			runs[current]++
		}
	}
	most := ""
	for config, n := range runs {
		if n > runs[most] || n == runs[most] && config < most {
			most = config
		}
	}
	return most
}

// isConfigOf reports whether a rendered config was rendered for the pool, according to its name. A node that has joined
// the pool may still run a config of its earlier pool.
func isConfigOf(config, pool string) bool {
	hash, ok := strings.CutPrefix(v1alpha1.ConfigName(config), "rendered-"+pool+"-")
	return ok && hash != "" && !strings.Contains(hash, "-")
}

// reachedAllThatReport reports whether all nodes are healthy with the config of a record. reachedAllThatReport ignores
// nodes whose kubelets do not report, unless the config may be the cause.
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

// mostOfOutcome is the maximum length of a verdict's reason in the pool's history, in runes.
const mostOfOutcome = 200

// endedRollouts returns the rollouts that end with this decision, the newest first. A record that has ended already is
// in the pool's history, and nothing is added about it: not when another record replaces it, and not when a retry lifts
// its verdict.
func endedRollouts(e evaluation) (ended []v1alpha1.RolloutOutcome) {
	was, now := e.Care.Record, e.record
	over := func(r v1alpha1.RolloutRecord) bool { return r.Ended != nil || r.Verdict != "" }
	if over(now) && (e.begins || !over(was)) {
		ended = append(ended, outcomeOf(e, now))
	}
	if e.begins && was.Config != "" && !over(was) {
		o := outcomeOf(e, was)
		if o.Result == v1alpha1.RolloutSuperseded {
			o.Next = &v1alpha1.NextRollout{Cause: now.Cause, Revision: now.Revision}
			if now.Cause == v1alpha1.RolloutCauseAPI {
				o.Next = &v1alpha1.NextRollout{Cause: now.Cause}
				if changes := slices.Concat(now.API, now.After); len(changes) > 0 {
					o.Next.API = &changes[0]
				}
			}
		}
		ended = append(ended, o)
	}
	return ended
}

// outcomeOf returns how the rollout of a record ended, with the numbers of nodes of this moment.
func outcomeOf(e evaluation, r v1alpha1.RolloutRecord) v1alpha1.RolloutOutcome {
	total := classifyFor(e.Facts, r.Target()).Total
	o := v1alpha1.RolloutOutcome{
		Requester: r.Requester, Config: r.Config, Secrets: r.Secrets, Before: r.Before,
		Result: v1alpha1.RolloutSuperseded, Nodes: total.Nodes, Updated: total.Nodes - total.Behind,
		Failed: total.Failed, Began: r.Began, Ended: stamp(e.now), UpdatedBefore: r.UpdatedBefore,
	}
	switch {
	case r.Verdict != "":
		o.Result, o.Back, o.Why, o.Updated = v1alpha1.RolloutResult(r.Verdict), r.Back,
			poolstate.Shorten(r.Why, mostOfOutcome), max(o.Updated, r.Updated)
	case r.Ended != nil || o.Nodes > 0 && total.Healthy == o.Nodes:
		o.Result = v1alpha1.RolloutCompleted
	}
	return o
}

// stamp returns a time in the precision of a record, which is whole seconds.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// stampUp returns a time rounded up to a whole second, so that no duration is too short.
func stampUp(t time.Time) *metav1.Time {
	up := stamp(t.Add(time.Second - 1))
	return &up
}
