package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// History is what commits gave a pool to run, newest first, and how the rollout of each ended.
type History struct {
	Pool string       `json:"pool"`
	Rows []HistoryRow `json:"history"`
	// Notes say what is not known any more.
	Notes []string `json:"notes,omitempty"`
}

// HistoryRow is one commit and how it ended for the pool.
type HistoryRow struct {
	Source   string `json:"source,omitempty"`
	Revision string `json:"revision"`
	Subject  string `json:"subject"`
	Author   string `json:"author"`
	// At is the time by which rows are sorted, the newest first; see setTimes. It is absent where nothing is known.
	At *time.Time `json:"at,omitempty"`
	// Committed is the commit's own time.
	Committed *time.Time `json:"committed,omitempty"`
	// Rendered config that the commit gave the pool, and when that was first made; absent where it is not known.
	Rendered   string     `json:"rendered,omitempty"`
	RenderedAt *time.Time `json:"renderedAt,omitempty"`

	HistoryChanges `json:",inline"`

	HistoryOutcome `json:",inline"`

	// entry of the source's history; nil for a row that is none of its.
	entry *v1alpha1.HistoryEntry
	// rollout is the index in the pool's past outcomes, of a row that was made from one; currentRollout for the one under way.
	rollout int
}

// HistoryChanges are the changes through the API that a row is about.
type HistoryChanges struct {
	// API are the changes through the API that asked for the config; Revision was applied at that time.
	API []v1alpha1.APIChange `json:"api,omitempty"`
	// After are the changes through the API that took back earlier ones, so that the pool returned to what the commit gave.
	After []v1alpha1.APIChange `json:"after,omitempty"`
}

// HistoryOutcome is how a commit ended for a pool, or how far it is.
type HistoryOutcome struct {
	// Result as a stable word.
	Result HistoryResult `json:"result"`
	// Updated of Nodes ran the config when the rollout ended, or run it now; both 0 where it had no rollout.
	Updated int `json:"updated"`
	Nodes   int `json:"nodes"`
	// Began and Ended of the rollout; absent where they are not known, or it goes on.
	Began *time.Time `json:"began,omitempty"`
	Ended *time.Time `json:"ended,omitempty"`
	// Failed nodes reported a failure of the config when the rollout ended or was replaced.
	Failed int `json:"failed,omitempty"`
	// UpdatedBefore is how many nodes ran the config already when the rollout began. RanBefore: all did, so that no node was assigned it.
	UpdatedBefore int  `json:"updatedBefore,omitempty"`
	RanBefore     bool `json:"ranBefore,omitempty"`
	// By is the revision that replaced it.
	By string `json:"by,omitempty"`
	// Back is the config that the pool went back to.
	Back string `json:"back,omitempty"`
	// Why it was refused, halted or reverted, or what it waits for.
	Why string `json:"why,omitempty"`
	// Outcome is all of that in words.
	Outcome string `json:"outcome"`
}

// HistoryResult is how a commit ended for a pool.
type HistoryResult string

// Values of HistoryResult. Those of v1alpha1.RolloutResult are results too.
const (
	// ResultRefused: nothing of the commit was applied.
	ResultRefused HistoryResult = "Refused"
	// ResultNotRendered: the commit was applied, but the pool cannot be rendered with it.
	ResultNotRendered HistoryResult = "NotRendered"
	// ResultPending: the pool is not rendered yet, or its rollout has not begun.
	ResultPending HistoryResult = "Pending"
	// ResultNoEffect: the commit changed nothing for the pool.
	ResultNoEffect HistoryResult = "NoEffect"
	// ResultRollingOut, ResultWaiting, ResultPaused: the rollout is under way, and goes on, waits, or is paused.
	ResultRollingOut HistoryResult = "RollingOut"
	ResultWaiting    HistoryResult = "Waiting"
	ResultPaused     HistoryResult = "Paused"
	// ResultNoNodes: the pool should run the config, and has no nodes.
	ResultNoNodes HistoryResult = "NoNodes"
	// ResultUnknown: the result was not recorded.
	ResultUnknown HistoryResult = "Unknown"
)

// NewHistory puts together what the sources, the pool's record and history, and the rendered configs remember.
func NewHistory(c Cluster, pool string, now time.Time) (History, error) {
	f := newFleet(c, now)
	v := f.pools[pool]
	if v == nil {
		return History{}, fmt.Errorf("there is no pool %q; `bunsen get pools` lists them", pool)
	}
	h := History{Pool: pool, Rows: []HistoryRow{}}
	for i := range f.Sources {
		src := &f.Sources[i]
		if of := v.object.Annotations[v1alpha1.SourceAnnotation]; of != "" && of != src.Name && !gave(src, pool) {
			continue
		}
		if row, no := refusedRow(src); no {
			h.Rows = append(h.Rows, row)
		} else if s := src.Status; s.ObservedRevision != "" && s.ObservedRevision != s.AppliedRevision && !remembers(src, s.ObservedRevision) {
			h.Notes = append(h.Notes, fmt.Sprintf("GitSource %s has seen %s, which is not applied: bunsen why pool/%s", src.Name, shortRevision(s.ObservedRevision), pool))
		}
		for j := range src.Status.History {
			h.Rows = append(h.Rows, historyRow(f, src.Name, &src.Status.History[j], pool))
		}
		if len(appliedHistory(src)) >= v1alpha1.MaxHistory {
			h.Notes = append(h.Notes, fmt.Sprintf("GitSource %s keeps %d commits; older ones are not listed", src.Name, v1alpha1.MaxHistory))
		}
	}
	slices.SortStableFunc(h.Rows, func(a, b HistoryRow) int {
		if a.Source == b.Source || a.Committed == nil || b.Committed == nil {
			return 0
		}
		return b.Committed.Compare(*a.Committed)
	})
	past, err := v1alpha1.ParseRolloutHistory(v.object.Annotations[v1alpha1.RolloutHistoryAnnotation])
	if err != nil {
		h.Notes = append(h.Notes, "older results are lost: "+err.Error())
	}
	h.Rows = withAPIRows(f, v, h.Rows, past)
	used := judgeCommits(f, v, h.Rows, past)
	h.Rows = withRetries(f, withCurrent(f, v, h.Rows), past, used)
	h.Rows = append(h.Rows, forgottenRows(f, v, h.Rows, past, used)...)
	sortByTime(h.Rows)
	if ofGoneSource(f, h.Rows) {
		h.Notes = append(h.Notes, "Earlier commits were recorded by a GitSource that is gone; those that were refused or had no effect are not listed")
	}
	return h, nil
}

// remembers tells that a source's history has a revision.
func remembers(src *v1alpha1.GitSource, revision string) bool {
	return slices.ContainsFunc(src.Status.History, func(e v1alpha1.HistoryEntry) bool { return e.Revision == revision })
}

// refusedRow is the newest commit of a source where it cannot be used and where the history does not say so, as that of an older
// controller.
func refusedRow(src *v1alpha1.GitSource) (HistoryRow, bool) {
	s := src.Status
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ReadyCondition)
	r := refusalOf(c)
	stalled := c != nil && c.Status == metav1.ConditionFalse && meta.IsStatusConditionTrue(s.Conditions, v1alpha1.StalledCondition)
	row := HistoryRow{Source: src.Name, Revision: cmp.Or(s.ObservedRevision, r.revision), Subject: r.subject, Author: r.author}
	row.HistoryOutcome = refusedOutcome(r.problem, "")
	return row, (r.in != "" || stalled) && row.Revision != "" && row.Revision != s.AppliedRevision && !remembers(src, row.Revision)
}

// refusedOutcome is the outcome of a refused commit. newer is the commit that the source followed next; empty while there is none.
func refusedOutcome(why, newer string) HistoryOutcome {
	text := "refused, nothing of it was applied: " + shorten(why)
	if newer != "" {
		text += "; superseded by " + shortRevision(newer)
	}
	return HistoryOutcome{Result: ResultRefused, Why: why, By: newer, Outcome: text}
}

// followedBy is the commit of the same source that came after that of a row; empty for the newest. Rows are newest first.
func followedBy(rows []HistoryRow, i int) string {
	for j := i - 1; j >= 0; j-- {
		if rows[j].Source == rows[i].Source && rows[j].Revision != rows[i].Revision {
			return rows[j].Revision
		}
	}
	return ""
}

// gave tells that a commit of the source gave the pool a config.
func gave(src *v1alpha1.GitSource, pool string) bool {
	return slices.ContainsFunc(src.Status.History, func(e v1alpha1.HistoryEntry) bool { return e.Pools[pool] != "" })
}

func historyRow(f *fleet, source string, e *v1alpha1.HistoryEntry, pool string) HistoryRow {
	row := HistoryRow{
		Source: source, Revision: e.Revision, Subject: e.Subject, Author: e.Author, Committed: known(e.Time.UTC()), Rendered: e.Pools[pool], entry: e,
	}
	row.RenderedAt = renderedAt(f, row.Rendered)
	return row
}

// renderedAt is when a config was made; nil where that is not known.
func renderedAt(f *fleet, name string) *time.Time {
	for _, r := range f.Rendered {
		if r.Name == name {
			return known(r.Created.UTC())
		}
	}
	return nil
}

// judgeCommits says how each commit ended, and returns the recorded outcomes that it used. Rows are newest first; of those in a line with
// one config the oldest brought it, and the others changed nothing for the pool.
func judgeCommits(f *fleet, v *poolView, rows []HistoryRow, past []v1alpha1.RolloutOutcome) map[int]bool {
	used := map[int]bool{}
	newer := ""      // the revision that brought the config after the one that is looked at
	var run []string // revisions of the line with one config
	applied := 0     // how many applied commits were looked at
	returned := ""   // the config to which the pool returned after the row that is looked at
	for i := range rows {
		r := &rows[i]
		if r.byAPI() || r.isReturn() {
			if r.HistoryOutcome = currentOutcome(f, v); r.rollout != currentRollout {
				r.HistoryOutcome, used[r.rollout] = pastOutcome(past[r.rollout], newer), true
			}
			if newer, run, returned = r.name(), nil, ""; r.isReturn() {
				returned = r.Rendered
			}
			continue
		}
		if r.entry == nil {
			continue
		}
		if r.entry.Refused != nil {
			r.HistoryOutcome = refusedOutcome(r.entry.Refused.Message, followedBy(rows, i))
			continue
		}
		if applied++; r.Rendered == "" {
			r.HistoryOutcome = notRendered(v, r.entry, applied == 1)
			continue
		}
		run = append(run, r.Revision)
		older := slices.IndexFunc(rows[i+1:], func(o HistoryRow) bool { return o.Rendered != "" })
		if older >= 0 && rows[i+1+older].Rendered == r.Rendered {
			r.HistoryOutcome = HistoryOutcome{Result: ResultNoEffect, Outcome: "no effect: same config as " + shortRevision(rows[i+1+older].name())}
			continue
		}
		at := recordedOutcome(past, used, r.Rendered, run)
		switch asked := earlierRequester(v, rows, older < 0); {
		case newer == "" && r.Rendered == v.facts.Target && asked != "":
			r.HistoryOutcome = HistoryOutcome{Result: ResultNoEffect, Outcome: "no effect: same config as " + shortRevision(asked)}
			continue
		case newer == "" && r.Rendered == v.facts.Target:
			r.HistoryOutcome = currentOutcome(f, v)
			if v.facts.Care.Record.Config == r.Rendered {
				r.After = v.wave.Record.After
			}
		case at < 0 && r.Rendered == returned:
			r.HistoryOutcome = HistoryOutcome{Result: ResultNoEffect, Outcome: "no effect: did not affect this pool"}
			continue
		case newer == "":
			r.HistoryOutcome = HistoryOutcome{Result: ResultPending, Outcome: "not the target of the pool yet"}
		case at >= 0:
			used[at] = true
			r.HistoryOutcome, r.After = pastOutcome(past[at], newer), past[at].After
		default:
			r.HistoryOutcome = unrecorded(v, rows[i:], past, newer)
		}
		newer, run = r.Revision, nil
	}
	return used
}

// recordedOutcome is the index of the newest outcome that no row has yet, of a config that one of the commits gave; -1 for none.
func recordedOutcome(past []v1alpha1.RolloutOutcome, used map[int]bool, config string, commits []string) int {
	for i, o := range past {
		if !used[i] && o.Config == config && !o.ByAPI() && slices.Contains(commits, o.Revision) {
			return i
		}
	}
	return -1
}

// notRendered is the outcome of a commit that gave the pool nothing.
func notRendered(v *poolView, e *v1alpha1.HistoryEntry, newest bool) HistoryOutcome {
	why := e.NotRendered[v.object.Name]
	if failed := v.renderFailure(); newest && failed != "" && v.object.Annotations[v1alpha1.NotRenderedAnnotation] == e.Revision {
		why = failed
	}
	switch {
	case why != "":
		return HistoryOutcome{Result: ResultNotRendered, Why: why, Outcome: "not rendered: " + shorten(why)}
	case newest:
		return HistoryOutcome{Result: ResultPending, Outcome: "not rendered yet"}
	}
	return HistoryOutcome{Result: ResultNoEffect, Outcome: "no effect: did not affect this pool, or was replaced before it was rendered"}
}

// pastOutcome is a recorded outcome. newer is the revision that came next.
func pastOutcome(o v1alpha1.RolloutOutcome, newer string) HistoryOutcome {
	out := HistoryOutcome{
		Result: HistoryResult(o.Result), Updated: o.Updated, Nodes: o.Nodes, Began: known(o.Began.UTC()), Ended: known(o.Ended.UTC()), Back: o.Back, Why: o.Why,
		Failed: o.Failed, UpdatedBefore: o.UpdatedBefore, RanBefore: o.Nodes > 0 && o.UpdatedBefore >= o.Nodes,
	}
	if o.Result == v1alpha1.RolloutSuperseded {
		out.By = newer
	}
	out.Outcome = out.text() + besidesCommit(o.Requester)
	return out
}

// unrecorded is the outcome of a commit whose rollout is not in the pool's history: it was replaced before it began, or, where no
// older one was recorded either, by a controller that recorded none.
func unrecorded(v *poolView, rows []HistoryRow, past []v1alpha1.RolloutOutcome, newer string) HistoryOutcome {
	recorded := func(r HistoryRow) bool {
		return slices.ContainsFunc(past, func(o v1alpha1.RolloutOutcome) bool { return o.Revision == r.Revision }) || v.facts.Care.Record.Revision == r.Revision
	}
	earlier := func(o v1alpha1.RolloutOutcome) bool { // its commit is older than the history
		return o.Config == rows[0].Rendered && !slices.ContainsFunc(rows, func(r HistoryRow) bool { return r.Revision == o.Revision })
	}
	if at := slices.IndexFunc(past, earlier); at >= 0 && renderedIn(rows[1:]) == "" {
		return HistoryOutcome{Result: ResultNoEffect, Outcome: "no effect: same config as " + shortRevision(past[at].Revision)}
	}
	if slices.ContainsFunc(rows, recorded) {
		return HistoryOutcome{Result: HistoryResult(v1alpha1.RolloutSuperseded), By: newer, Outcome: "superseded by " + shortRevision(newer) + " before its rollout began"}
	}
	return HistoryOutcome{Result: ResultUnknown, By: newer, Outcome: "replaced by " + shortRevision(newer) + "; its result was not recorded"}
}

// renderedIn is the first config of these rows; empty where they have none.
func renderedIn(rows []HistoryRow) string {
	for _, r := range rows {
		if r.Rendered != "" {
			return r.Rendered
		}
	}
	return ""
}

// currentOutcome is the outcome of the config that the pool should run.
func currentOutcome(f *fleet, v *poolView) HistoryOutcome {
	r, counts := v.wave.Record, v.counts()
	recorded := v.facts.Care.Record.Config == v.facts.Target // else the record is begun, and may end, only now
	out := HistoryOutcome{Updated: counts.Updated, Nodes: counts.Nodes, Back: r.Back, Why: r.Why}
	if recorded {
		out.Began = known(r.Began.UTC())
		out.UpdatedBefore, out.RanBefore = r.UpdatedBefore, counts.Nodes > 0 && r.UpdatedBefore >= counts.Nodes
	}
	if r.At != nil {
		out.Ended = known(r.At.UTC())
	}
	switch {
	case r.Verdict != "":
		out.Result, out.Updated = HistoryResult(r.Verdict), max(out.Updated, r.Updated)
	case counts.Nodes == 0:
		out.Result = ResultNoNodes
	case r.Ended != nil, v.object.Status.Configuration.Name == v.facts.Target && !recorded:
		out.Result, out.Updated = HistoryResult(v1alpha1.RolloutCompleted), counts.Nodes
		if r.Ended != nil {
			out.Ended = known(r.Ended.UTC())
		}
		if !recorded {
			out.Ended = nil
		}
	case v.facts.Paused:
		out.Result, out.Why = ResultPaused, strings.TrimPrefix(by(v.object), " by ")
	case len(v.wave.Blocks) > 0:
		out.Result, out.Why = ResultWaiting, v.wave.Blocks[0].Reason
	default:
		out.Result = ResultRollingOut
	}
	out.Outcome = out.text()
	if out.Result == ResultRollingOut && out.Began != nil {
		out.Outcome = "rolling out" + since(*out.Began, f.now) + ": " + out.at()
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
