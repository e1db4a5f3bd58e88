package rollout

import (
	"time"

	"github.com/bunsen-os/bunsen/reconcile/gate"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// gatesDue are the gates of a pool on which a decision depends. The zero value has no gates.
type gatesDue struct {
	// queries is true if the queries of the pool are due. jobs is true if the jobs at the end of the step are due. The
	// fields other than queries and jobs identify the step and the rollout.
	queries, jobs bool
	config        string
	began         int64
	step          int
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

// answeredBy reports whether the evaluated gates include all gates that are due.
func (d gatesDue) answeredBy(asked gatesDue) bool {
	return (!d.queries || asked.queries) && (!d.jobs || d == asked)
}

// gateQuestion returns what to evaluate: the gates that the last decision about a pool depended on.
func (f *Fleet) gateQuestion(facts poolstate.Facts, now time.Time) (q gate.Question, due gatesDue) {
	f.mu.Lock()
	due = f.gatesDue[facts.Pool]
	f.mu.Unlock()
	record := facts.Care.Record
	if due.jobs && (due.config != record.Target() || due.began != record.Began.Unix() || due.step != record.Steps) {
		due = gatesDue{queries: due.queries} // The jobs are due for another step or another rollout.
	}
	return gate.Question{
		Pool: facts.Pool, Config: record.Config, Began: record.Began.Time, Step: record.Steps, Due: due.jobs,
		RetryAt: facts.Care.RetryAt, Pace: facts.Care.Pace, Now: now,
	}, due
}
