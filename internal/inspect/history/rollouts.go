package history

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// rolloutRows returns a row for each rollout of a pool, newest first. Rollouts that end with the pool's next decision
// are shown as the controller is about to record them.
func rolloutRows(f *fleet.Fleet, v *fleet.Pool, past []v1alpha1.RolloutOutcome) []Row {
	rows := []Row{}
	r := v.Decision.Record
	if config := v.TargetConfig(); config != "" && r.Target() != v.Facts.Target {
		row := newRow(f, v.Object.Name, v.Facts.Requester, config)
		row.RowOutcome = currentOutcome(f, v)
		rows = append(rows, row)
	}
	ended := append(v.Decision.Ended[:len(v.Decision.Ended):len(v.Decision.Ended)], past...)
	switch over := r.Ended != nil || r.Verdict != ""; {
	case r.Config == "":
	case !over:
		row := newRow(f, v.Object.Name, r.Requester, r.Config)
		row.RowOutcome, row.Before = progressOf(f, v), r.Before
		row.At = row.Began
		setSecrets(f, &row, r.Began.Time, ended)
		rows = append(rows, row)
	case len(ended) == 0 || !ended[0].IsOf(r):
		// An earlier version of the controller recorded the end of a rollout in another place.
		ended = append([]v1alpha1.RolloutOutcome{outcomeOf(r)}, ended...)
	}
	for i, o := range ended {
		row := newRow(f, v.Object.Name, o.Requester, o.Config)
		row.RowOutcome, row.Before = endOf(o), o.Before
		row.At = row.Began
		setSecrets(f, &row, o.Began.Time, ended[i+1:])
		rows = append(rows, row)
	}
	return rows
}

// newRow returns the row of a rollout without its outcome. If the pool does not record who requested the config, the
// histories of the sources say it.
func newRow(f *fleet.Fleet, pool string, asked v1alpha1.Requester, config string) Row {
	for i := range f.Sources {
		if c := v1alpha1.AskedBy(f.Sources[i].Status.History, pool, config); c != nil && asked.Revision == "" &&
			len(asked.API) == 0 {
			asked.Revision = c.Revision
		}
	}
	row := Row{
		Cause: asked.Cause, By: asked.By, Revision: asked.Revision, Subject: asked.Subject, Author: asked.Author,
		Rendered: config,
		Changes:  Changes{API: asked.API, AlsoCommit: asked.AlsoCommit, After: asked.After},
	}
	for _, r := range f.Rendered {
		if r.Name != config {
			continue
		}
		if row.RenderedAt = fleet.TimeOrNil(r.Created.UTC()); r.Revision == asked.Revision {
			row.Source = r.Source
			if row.Subject == "" {
				row.Subject, row.Author = r.Subject, r.Author
			}
		}
	}
	for i := range f.Sources {
		for _, e := range f.Sources[i].Status.History {
			if e.Revision == asked.Revision && e.Refused == nil {
				row.Source, row.Committed = f.Sources[i].Name, fleet.TimeOrNil(e.Time.UTC())
				row.Subject, row.Author = cmp.Or(row.Subject, e.Subject), cmp.Or(row.Author, e.Author)
			}
		}
	}
	if asked.ByAPI() {
		row.Source, row.Subject, row.Author = "", "", ""
		row.Committed = fleet.TimeOrNil(asked.API[0].At.UTC())
	}
	return row
}

// setSecrets adds the changes of secrets to the row of a rollout that brought new values. The parameter older has the
// rollouts before it.
func setSecrets(f *fleet.Fleet, row *Row, began time.Time, older []v1alpha1.RolloutOutcome) {
	if row.Cause != v1alpha1.RolloutCauseSecrets {
		return
	}
	row.API, row.After, row.NewSecrets = nil, nil, true
	after := time.Time{}
	if len(older) > 0 {
		after = older[0].Began.Time
	}
	row.Secrets = fleet.SecretsChangedIn(f, row.Rendered, after, began)
}

// endOf converts a recorded outcome.
func endOf(o v1alpha1.RolloutOutcome) RowOutcome {
	out := RowOutcome{
		Result: Result(o.Result), Updated: o.Updated, Nodes: o.Nodes, Began: fleet.TimeOrNil(o.Began.UTC()),
		Ended: fleet.TimeOrNil(o.Ended.UTC()), Back: o.Back, Why: o.Why, Next: o.Next,
		Failed: o.Failed, UpdatedBefore: o.UpdatedBefore, RanBefore: o.Nodes > 0 && o.UpdatedBefore >= o.Nodes,
	}
	out.Outcome = out.text()
	return out
}

// outcomeOf returns the outcome of a record that has ended, as far as the record has it.
func outcomeOf(r v1alpha1.RolloutRecord) v1alpha1.RolloutOutcome {
	o := v1alpha1.RolloutOutcome{
		Requester: r.Requester, Config: r.Config, Secrets: r.Secrets, Before: r.Before, Began: r.Began,
		Result: v1alpha1.RolloutCompleted, UpdatedBefore: r.UpdatedBefore, Updated: r.Updated, Back: r.Back, Why: r.Why,
	}
	if r.Verdict != "" {
		o.Result = v1alpha1.RolloutResult(r.Verdict)
	}
	for _, at := range []*metav1.Time{r.At, r.Ended} {
		if at != nil {
			o.Ended = *at
		}
	}
	return o
}

// progressOf returns the progress of the rollout in the pool's record, which has not ended.
func progressOf(f *fleet.Fleet, v *fleet.Pool) RowOutcome {
	r, began := v.Decision.Record, (*time.Time)(nil)
	if v.Facts.Care.Record.Target() == r.Target() { // Without a stored record, the rollout can only begin now.
		began = fleet.TimeOrNil(r.Began.UTC())
	}
	if r.Target() != v.Facts.Target {
		return RowOutcome{
			Result: ResultRollingOut, Began: began,
			Outcome: "not ended; a newer config of the pool waits for its secrets",
		}
	}
	out := currentOutcome(f, v)
	out.Began, out.UpdatedBefore, out.RanBefore = began, r.UpdatedBefore, out.Nodes > 0 && r.UpdatedBefore >= out.Nodes
	if out.Result == ResultRollingOut && began != nil {
		out.Outcome = "rolling out" + fleet.Since(*began, f.Now) + ": " + out.at() + out.failures()
	}
	return out
}

// currentOutcome returns the progress of the pool's target.
func currentOutcome(f *fleet.Fleet, v *fleet.Pool) RowOutcome {
	counts := v.Counts()
	out := RowOutcome{
		Result: currentResult(v), Updated: counts.Updated, Nodes: counts.Nodes, Failed: counts.Degraded,
	}
	switch out.Result {
	case ResultPaused:
		out.Why = v.Object.Annotations[v1alpha1.PausedByAnnotation]
	case ResultWaiting:
		out.Why = v.Decision.Blocks[0].Reason
	}
	out.Outcome = out.text()
	if out.Result == ResultRollingOut || out.Result == ResultWaiting {
		out.Outcome += out.failures()
	}
	return out
}

func currentResult(v *fleet.Pool) Result {
	switch {
	case v.Counts().Nodes == 0:
		return ResultNoNodes
	case v.Facts.Paused:
		return ResultPaused
	case len(v.Decision.Blocks) > 0:
		return ResultWaiting
	}
	return ResultRollingOut
}
