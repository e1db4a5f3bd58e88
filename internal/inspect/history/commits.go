package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// withCommits adds the commits of a source that are the cause of no rollout, each at its time.
func withCommits(v *fleet.Pool, rows []Row, src *v1alpha1.GitSource) []Row {
	rollouts, newest := slices.Clone(rows), true
	for i, e := range src.Status.History {
		c := commit{
			pool: v, entry: &e, rollouts: rollouts, at: cmp.Or(e.At, e.Time).UTC(), newer: src.Status.History[:i],
			newest: newest && e.Refused == nil,
		}
		newest = newest && e.Refused != nil
		outcome := c.outcome()
		if outcome.Result == "" {
			continue
		}
		row := Row{
			Source: src.Name, Revision: e.Revision, Subject: e.Subject, Author: e.Author, At: fleet.TimeOrNil(c.at),
			Committed: fleet.TimeOrNil(e.Time.UTC()), Rendered: e.Pools[v.Object.Name], RowOutcome: outcome,
		}
		place := slices.IndexFunc(rows, func(r Row) bool { return r.At != nil && !r.At.After(c.at) })
		if place < 0 {
			place = len(rows)
		}
		rows = slices.Insert(rows, place, row)
	}
	return rows
}

// commit is a commit in the history of a source.
type commit struct {
	pool     *fleet.Pool
	entry    *v1alpha1.HistoryEntry
	rollouts []Row
	// at is when the commit was applied or refused.
	at time.Time
	// newer are the later commits of the source. newest is true for the newest applied one.
	newer  []v1alpha1.HistoryEntry
	newest bool
}

// outcome returns what came of the commit in the pool; the zero value if a rollout has the commit, or if the pool did
// not exist.
func (c commit) outcome() RowOutcome {
	name, e := c.pool.Object.Name, c.entry
	if e.Refused != nil {
		return RowOutcome{
			Result: ResultRefused, Why: e.Refused.Message,
			Outcome: "refused, nothing of it was applied: " + fleet.Shorten(e.Refused.Message),
		}
	}
	why := e.NotRendered[name]
	if failed := c.pool.RenderFailure(); c.newest && failed != "" &&
		c.pool.Object.Annotations[v1alpha1.NotRenderedAnnotation] == e.Revision {
		why = failed
	}
	isCause := func(r Row) bool { return r.Revision == e.Revision && (len(r.API) == 0 || r.AlsoCommit) }
	config, inForce := e.Pools[name], c.inForce()
	switch {
	case why != "":
		return RowOutcome{Result: ResultNotRendered, Why: why, Outcome: "not rendered: " + fleet.Shorten(why)}
	case c.pool.Object.CreationTimestamp.After(c.at), slices.ContainsFunc(c.rollouts, isCause):
		return RowOutcome{}
	case slices.Contains(e.Held, name):
		return RowOutcome{Result: ResultHeld, Outcome: "not rolled out: the pool was held at another commit"}
	case config != "" && (config == inForce.before || config == inForce.next):
		return RowOutcome{Result: ResultNoEffect, Outcome: "no effect: the pool kept its config"}
	case c.newest && config == "":
		return RowOutcome{Result: ResultPending, Outcome: "not rendered yet"}
	case c.newest:
		return RowOutcome{Result: ResultPending, Outcome: "not the target of the pool yet"}
	case inForce.before == "":
		return RowOutcome{Result: ResultUnknown, Outcome: "what came of it is not recorded"}
	}
	return RowOutcome{Result: ResultSkipped, Outcome: "not rolled out: a newer commit came first"}
}

// configs are the configs of a pool around a point in time; empty if no rollout is recorded.
type configs struct {
	// before is the config of the last rollout that began before it, next that of the first one that began after it.
	before, next string
}

// inForce returns the configs of the pool around the time when the commit was applied. The rollout of an earlier commit
// can begin a moment after that, so the next rollout matters too, unless a later commit is its cause.
func (c commit) inForce() configs {
	var found configs
	for _, r := range slices.Backward(c.rollouts) {
		if r.At == nil || r.At.After(c.at) {
			if !slices.ContainsFunc(c.newer, func(e v1alpha1.HistoryEntry) bool { return e.Revision == r.Revision }) {
				found.next = r.Rendered
			}
			break
		}
		found.before = r.Rendered
	}
	return found
}
