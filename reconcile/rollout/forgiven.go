package rollout

import (
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// The suffixes of entries in RolloutRecord.Forgiven, which names nodes whose failure does not count. A suffix restricts
// an entry.
const (
	// away: the node was not Ready when it was assigned the target. That such a node is not Ready does not count as a
	// failure, but other failures of the node count.
	away = "/away"
	// again: a user requested a retry after the node had failed. Until the node is healthy, and for at most the time
	// patience, no other node is assigned the target. Whether the node's failure counts depends on the entry without a
	// suffix.
	again = "/again"
)

// patience is how long after a retry a reported failure counts as the failure before the retry. patience applies only
// if the daemon does not report to which retry the failure belongs.
const patience = 5 * time.Minute

// withForgiven returns a record that also forgives the given nodes.
func withForgiven(r v1alpha1.RolloutRecord, names []string) v1alpha1.RolloutRecord {
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(r.Forgiven, name) })
	if len(names) > 0 {
		r.Forgiven = slices.Sorted(slices.Values(slices.Concat(r.Forgiven, names)))
	}
	return r
}

// retryFailed forgives the nodes that failed the target, because a user requested a retry. Other nodes wait for the
// nodes that report a failure. A node that drains for its own next try reports the earlier failure until that try ends.
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

// forgiveAssigned forgives the assigned nodes that already report a failure or are not Ready, if this could look like a
// failure of the target. A recorded failure of another config does not look like a failure of the target.
func forgiveAssigned(e evaluation, assigned []*poolstate.Member) v1alpha1.RolloutRecord {
	if e.Care.Pace.Failures.After < 1 || e.nodes.Target != e.Target {
		return e.record
	}
	var names []string
	for _, m := range assigned {
		switch {
		case m.Failing() && m.Candidate != poolstate.CandidateCurrent && !m.FailedOther(e.nodes.Target):
			names = append(names, m.Name)
		case m.Health.Trouble != "":
			names = append(names, m.Name+away)
		}
	}
	return withForgiven(e.record, names)
}

// countAgain removes the forgiven nodes that have changed their state or do not exist any more. After that, failures of
// these nodes count.
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

// failedAgain reports whether a node failed the target once more after a user requested a retry, as its daemon reports.
func failedAgain(e evaluation, m *poolstate.Member) bool {
	requested := e.Care.RetryAt
	return m.Failed && m.Failure.Config == e.nodes.Target && m.Failure.Retry != nil && !requested.IsZero() &&
		!m.Failure.Retry.Time.Before(requested)
}

// patientUntil returns until when other nodes wait for retried nodes.
func patientUntil(e evaluation) time.Time {
	if e.Care.RetryAt.IsZero() {
		return e.record.Began.Add(patience)
	}
	return e.Care.RetryAt.Add(patience)
}

// retriedNodes returns the names of the nodes that failed the target, are retried, and are not healthy yet.
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

// wasNotReady reports whether a node was not Ready when it was assigned the target, and has not been Ready since.
func wasNotReady(r v1alpha1.RolloutRecord, m *poolstate.Member) bool {
	return slices.Contains(r.Forgiven, m.Name+away)
}
