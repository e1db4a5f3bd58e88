package history

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// outcomeReader sets the result of each row of a pool, newest first.
type outcomeReader struct {
	f    *fleet.Fleet
	v    *fleet.Pool
	rows []Row
	past []v1alpha1.RolloutOutcome
	// used are the recorded outcomes that a row already uses.
	used map[int]bool
	// newer is the revision that brought the config after the current row's config. returned is the config to which the
	// pool returned at that time.
	newer, returned string
	// run are the consecutive revisions, up to the current row, that gave the pool the same config.
	run []string
	// applied is the number of rows with applied commits so far.
	applied int
}

// setOutcomes sets the result of each commit, and returns the recorded outcomes that it used. Rows are newest first. Of
// consecutive commits with the same config, the oldest brought the config, and the others changed nothing for the pool.
func setOutcomes(f *fleet.Fleet, v *fleet.Pool, rows []Row, past []v1alpha1.RolloutOutcome) map[int]bool {
	o := outcomeReader{f: f, v: v, rows: rows, past: past, used: map[int]bool{}}
	for i := range rows {
		switch r := &rows[i]; {
		case r.byAPI(), r.isReturn(), r.NewSecrets:
			o.setRollout(r)
		case r.entry == nil:
		case r.entry.Refused != nil:
			r.RowOutcome = refusedOutcome(r.entry.Refused.Message, followedBy(rows, i))
		default:
			o.setCommit(i)
		}
	}
	return o.used
}

// setRollout sets the outcome of a rollout after changes through the API.
func (o *outcomeReader) setRollout(r *Row) {
	if r.rollout == currentRollout {
		r.RowOutcome = currentOutcome(o.f, o.v)
	} else {
		r.RowOutcome, o.used[r.rollout] = pastOutcome(o.past[r.rollout], o.newer), true
	}
	if o.newer, o.run, o.returned = r.name(), nil, ""; r.isReturn() {
		o.returned = r.Rendered
	}
}

// setCommit sets the outcome of an applied commit.
func (o *outcomeReader) setCommit(i int) {
	r := &o.rows[i]
	if o.applied++; r.Rendered == "" {
		r.RowOutcome = notRendered(o.v, r.entry, o.applied == 1)
		return
	}
	o.run = append(o.run, r.Revision)
	outcome, replaces := o.commitOutcome(i)
	if r.RowOutcome = outcome; replaces {
		o.newer, o.run = r.Revision, nil
	}
}

// commitOutcome returns the result of a commit that gave the pool a config. The parameter replaces is true if the
// commit's config replaced an older config.
func (o *outcomeReader) commitOutcome(i int) (_ RowOutcome, replaces bool) {
	r := &o.rows[i]
	older := slices.IndexFunc(o.rows[i+1:], func(r Row) bool { return r.Rendered != "" && !r.NewSecrets })
	if older >= 0 && o.rows[i+1+older].Rendered == r.Rendered {
		return sameConfig(o.rows[i+1+older].name()), false
	}
	at := recordedOutcome(o.past, o.used, r.Rendered, o.run)
	if o.newer == "" && r.Rendered == o.v.TargetConfig() {
		if asked := earlierRequester(o.v, o.rows, older < 0); asked != "" {
			return sameConfig(asked), false
		}
		if o.v.Facts.Care.Record.Config == r.Rendered {
			r.After = o.v.Decision.Record.After
		}
		return currentOutcome(o.f, o.v), true
	}
	switch {
	case at < 0 && r.Rendered == o.returned:
		return RowOutcome{Result: ResultNoEffect, Outcome: "no effect: did not affect this pool"}, false
	case o.newer == "":
		return RowOutcome{Result: ResultPending, Outcome: "not the target of the pool yet"}, true
	case at >= 0:
		o.used[at], r.After = true, o.past[at].After
		return pastOutcome(o.past[at], o.newer), true
	}
	return unrecorded(o.v, o.rows[i:], o.past, o.newer), true
}

// sameConfig returns the outcome of a commit that gave the pool the same config as an earlier commit.
func sameConfig(earlier string) RowOutcome {
	return RowOutcome{Result: ResultNoEffect, Outcome: "no effect: same config as " + fleet.ShortRevision(earlier)}
}

// recordedOutcome returns the index of the newest unused outcome whose config one of the given commits produced, or -1.
func recordedOutcome(past []v1alpha1.RolloutOutcome, used map[int]bool, config string, commits []string) int {
	for i, o := range past {
		if !used[i] && o.Config == config && !o.ByAPI() && slices.Contains(commits, o.Revision) {
			return i
		}
	}
	return -1
}

// notRendered returns the outcome of a commit that gave the pool no config.
func notRendered(v *fleet.Pool, e *v1alpha1.HistoryEntry, newest bool) RowOutcome {
	why := e.NotRendered[v.Object.Name]
	if failed := v.RenderFailure(); newest && failed != "" &&
		v.Object.Annotations[v1alpha1.NotRenderedAnnotation] == e.Revision {
		why = failed
	}
	switch {
	case why != "":
		return RowOutcome{Result: ResultNotRendered, Why: why, Outcome: "not rendered: " + fleet.Shorten(why)}
	case newest:
		return RowOutcome{Result: ResultPending, Outcome: "not rendered yet"}
	}
	return RowOutcome{Result: ResultNoEffect, Outcome: "no effect: did not affect this pool, or was replaced before " +
		"it was rendered"}
}

// pastOutcome converts a recorded outcome. The parameter newer is the next revision.
func pastOutcome(o v1alpha1.RolloutOutcome, newer string) RowOutcome {
	out := RowOutcome{
		Result: Result(o.Result), Updated: o.Updated, Nodes: o.Nodes, Began: fleet.TimeOrNil(o.Began.UTC()),
		Ended: fleet.TimeOrNil(o.Ended.UTC()), Back: o.Back, Why: o.Why,
		Failed: o.Failed, UpdatedBefore: o.UpdatedBefore, RanBefore: o.Nodes > 0 && o.UpdatedBefore >= o.Nodes,
	}
	if o.Result == v1alpha1.RolloutSuperseded {
		out.By = newer
	}
	out.Outcome = out.text() + besidesCommit(o.Requester)
	return out
}

// unrecorded returns the outcome of a commit whose rollout is not in the pool's history. Such a rollout was replaced
// before it began. If no older outcome was recorded either, an older version of the controller, which recorded no
// outcomes, may be the reason.
func unrecorded(v *fleet.Pool, rows []Row, past []v1alpha1.RolloutOutcome, newer string) RowOutcome {
	recorded := func(r Row) bool {
		return slices.ContainsFunc(past, func(o v1alpha1.RolloutOutcome) bool { return o.Revision == r.Revision }) ||
			v.Facts.Care.Record.Revision == r.Revision
	}
	earlier := func(o v1alpha1.RolloutOutcome) bool { // The commit of this outcome is older than the history.
		return o.Config == rows[0].Rendered && !slices.ContainsFunc(rows, func(r Row) bool {
			return r.Revision == o.Revision
		})
	}
	if at := slices.IndexFunc(past, earlier); at >= 0 && renderedIn(rows[1:]) == "" {
		return sameConfig(past[at].Revision)
	}
	if slices.ContainsFunc(rows, recorded) {
		return RowOutcome{Result: Result(v1alpha1.RolloutSuperseded), By: newer, Outcome: "superseded by " +
			fleet.ShortRevision(newer) + " before its rollout began"}
	}
	return RowOutcome{Result: ResultUnknown, By: newer, Outcome: "replaced by " + fleet.ShortRevision(newer) +
		"; its result was not recorded"}
}

// renderedIn returns the first config in the given rows, or "".
func renderedIn(rows []Row) string {
	for _, r := range rows {
		if r.Rendered != "" {
			return r.Rendered
		}
	}
	return ""
}

// currentOutcome returns the outcome of the config that the pool should run.
func currentOutcome(f *fleet.Fleet, v *fleet.Pool) RowOutcome {
	r, counts := v.Decision.Record, v.Counts()
	// Without a record of the target, a rollout can only begin now.
	recorded := v.Facts.Care.Record.Target() == v.Facts.Target
	out := RowOutcome{
		Result: currentResult(v, recorded), Updated: counts.Updated, Nodes: counts.Nodes, Back: r.Back,
		Why: r.Why,
	}
	if recorded {
		out.Began = fleet.TimeOrNil(r.Began.UTC())
		out.UpdatedBefore, out.RanBefore = r.UpdatedBefore, counts.Nodes > 0 && r.UpdatedBefore >= counts.Nodes
	}
	out.Ended = utc(r.At)
	switch out.Result {
	case Result(r.Verdict):
		out.Updated = max(out.Updated, r.Updated)
	case Result(v1alpha1.RolloutCompleted):
		out.Updated, out.Ended = counts.Nodes, nil
		if recorded {
			out.Ended = utc(r.Ended)
		}
	case ResultPaused:
		out.Why = v.Object.Annotations[v1alpha1.PausedByAnnotation]
	case ResultWaiting:
		out.Why = v.Decision.Blocks[0].Reason
	}
	out.Outcome = out.text()
	if out.Result == ResultRollingOut && out.Began != nil {
		out.Outcome = "rolling out" + fleet.Since(*out.Began, f.Now) + ": " + out.at()
	}
	if out.Result == ResultRollingOut || out.Result == ResultWaiting {
		out.Failed = counts.Degraded
		out.Outcome += out.failures()
	}
	if recorded {
		out.Outcome += besidesCommit(r.Requester)
	}
	return out
}

// currentResult returns the result of the config that the pool should run. The parameter recorded is true if the pool's
// record is about this config.
func currentResult(v *fleet.Pool, recorded bool) Result {
	r := v.Decision.Record
	switch {
	case r.Verdict != "":
		return Result(r.Verdict)
	case v.Counts().Nodes == 0:
		return ResultNoNodes
	case r.Ended != nil, v.Object.Status.Configuration.Name == v.TargetConfig() && !recorded:
		return Result(v1alpha1.RolloutCompleted)
	case v.Facts.Paused:
		return ResultPaused
	case len(v.Decision.Blocks) > 0:
		return ResultWaiting
	}
	return ResultRollingOut
}

// utc returns a recorded time in UTC, or nil.
func utc(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	return fleet.TimeOrNil(t.UTC())
}

// refusedOutcome returns the outcome of a refused commit. The parameter newer is the commit that the source followed
// next, or "".
func refusedOutcome(why, newer string) RowOutcome {
	text := "refused, nothing of it was applied: " + fleet.Shorten(why)
	if newer != "" {
		text += "; superseded by " + fleet.ShortRevision(newer)
	}
	return RowOutcome{Result: ResultRefused, Why: why, By: newer, Outcome: text}
}

// followedBy returns the next commit of the same source; "" for the newest commit. Rows are newest first.
func followedBy(rows []Row, i int) string {
	for j := i - 1; j >= 0; j-- {
		if rows[j].Source == rows[i].Source && rows[j].Revision != rows[i].Revision {
			return rows[j].Revision
		}
	}
	return ""
}
