package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// History is the rollouts of a pool and the commits that no rollout brought to it, newest first.
type History struct {
	Pool string `json:"pool"`
	Rows []Row  `json:"history"`
	// Notes say which records are lost, and what is not recorded yet.
	Notes []string `json:"notes,omitempty"`
	// Nodes is how many the pool has now.
	Nodes int `json:"-"`
}

// Row is one rollout, or one commit without a rollout.
type Row struct {
	// Cause is what began the rollout; empty for a commit without one, or if unknown. By is who holds the pool, and
	// why.
	Cause    v1alpha1.RolloutCause `json:"cause,omitempty"`
	By       string                `json:"heldBy,omitempty"`
	Source   string                `json:"source,omitempty"`
	Revision string                `json:"revision"`
	Subject  string                `json:"subject"`
	Author   string                `json:"author"`
	// At is when the rollout began, or when the controller applied or refused the commit; nil if unknown.
	At        *time.Time `json:"at,omitempty"`
	Committed *time.Time `json:"committed,omitempty"`
	// Rendered is the config that the commit gave the pool, RenderedAt its first creation, or nil if unknown, and
	// Before the config that the rollout replaced.
	Rendered   string     `json:"rendered,omitempty"`
	Before     string     `json:"before,omitempty"`
	RenderedAt *time.Time `json:"renderedAt,omitempty"`

	Changes `json:",inline"`

	RowOutcome `json:",inline"`
}

// Changes are the changes through the API that a row describes.
type Changes struct {
	// API are the changes that requested the config; Row.Revision was applied then.
	API []v1alpha1.APIChange `json:"api,omitempty"`
	// AlsoCommit: with API, the commit of Revision requested the config too.
	AlsoCommit bool `json:"alsoCommit,omitempty"`
	// After are the changes through the API that reverted earlier ones, so that the pool returned to the commit's
	// config.
	After []v1alpha1.APIChange `json:"after,omitempty"`
	// NewSecrets: the rollout of new values of the secrets of a config that the pool already had. Secrets are the
	// changes behind it, newest first, as far as they are known.
	NewSecrets bool                    `json:"newSecrets,omitempty"`
	Secrets    []v1alpha1.SecretChange `json:"secrets,omitempty"`
}

// RowOutcome is the result of a commit for a pool, or its progress.
type RowOutcome struct {
	Result Result `json:"result"`
	// Updated is how many of the Nodes ran the config when the rollout ended, or run it now. Both are 0 without a
	// rollout.
	Updated int `json:"updated"`
	Nodes   int `json:"nodes"`
	// Began and Ended are times of the rollout; nil if they are unknown. Ended is nil while the rollout continues.
	Began *time.Time `json:"began,omitempty"`
	Ended *time.Time `json:"ended,omitempty"`
	// Failed is how many nodes failed the config when the rollout ended or was replaced.
	Failed int `json:"failed,omitempty"`
	// UpdatedBefore is how many nodes already ran the config when the rollout began. RanBefore: all did, so that none
	// was updated.
	UpdatedBefore int  `json:"updatedBefore,omitempty"`
	RanBefore     bool `json:"ranBefore,omitempty"`
	// Next is what replaced the rollout; otherwise nil.
	Next *v1alpha1.NextRollout `json:"next,omitempty"`
	// nextSubject is that of the commit which replaced it; empty if unknown.
	nextSubject string
	// Back is where a revert went.
	Back string `json:"back,omitempty"`
	// Why the commit was refused, halted or reverted, or its rollout waits.
	Why     string `json:"why,omitempty"`
	Outcome string `json:"outcome"`
}

// Result is the kind of a commit's result for a pool.
type Result string

// The values of a row's Result. The values of v1alpha1.RolloutResult are results too.
const (
	// ResultRefused: nothing of the commit was applied.
	ResultRefused Result = "Refused"
	// ResultNotRendered: the commit was applied, but the pool cannot be rendered with it.
	ResultNotRendered Result = "NotRendered"
	// ResultPending: the pool is not rendered yet, or its rollout has not begun.
	ResultPending Result = "Pending"
	// ResultHeld: the pool did not get the commit, because it was held at an earlier one.
	ResultHeld Result = "Held"
	// ResultNoEffect: the commit changed nothing for the pool.
	ResultNoEffect Result = "NoEffect"
	// ResultSkipped: a newer commit replaced the commit before its rollout began.
	ResultSkipped Result = "Skipped"
	// ResultRollingOut, ResultWaiting, ResultPaused: the rollout continues, waits, or is paused.
	ResultRollingOut Result = "RollingOut"
	ResultWaiting    Result = "Waiting"
	ResultPaused     Result = "Paused"
	ResultNoNodes    Result = "NoNodes"
	// ResultUnknown: the result is not recorded any more.
	ResultUnknown Result = "Unknown"
)

// New returns the history of a pool in a cluster.
func New(c fleet.Cluster, pool string, now time.Time) (History, error) {
	return Of(fleet.New(c, now), pool)
}

// All returns the histories of all pools.
func All(f *fleet.Fleet) []History {
	var out []History
	for i := range f.Pools {
		if h, err := Of(f, f.Pools[i].Name); err == nil { // There is no error, because the pool exists.
			out = append(out, h)
		}
	}
	return out
}

// Of is New for a cluster whose decisions are known.
//
// A rollout is shown as it was recorded. A row without one is about a commit that the source recorded and that caused
// none of them.
func Of(f *fleet.Fleet, pool string) (History, error) {
	v, err := f.FindPool(pool)
	if err != nil {
		return History{}, err
	}
	h := History{Pool: pool, Nodes: len(v.Rows)}
	past, err := v1alpha1.ParseRolloutHistory(v.Object.Annotations[v1alpha1.RolloutHistoryAnnotation])
	if err != nil {
		h.Notes = append(h.Notes, "older results are lost: "+err.Error())
	}
	h.Rows = rolloutRows(f, v, past)
	for i := range f.Sources {
		src := &f.Sources[i]
		if of := v.Object.Annotations[v1alpha1.SourceAnnotation]; of == "" || of == src.Name ||
			fleet.GavePool(src, pool) {
			h.Rows = withCommits(v, h.Rows, src)
			h.Notes = append(h.Notes, sourceNotes(src, pool)...)
		}
	}
	if f.Secrets.Note != "" && slices.ContainsFunc(h.Rows, func(r Row) bool { return r.NewSecrets }) {
		h.Notes = append(h.Notes, "Which secrets changed is "+f.Secrets.Note)
	}
	if len(past) >= v1alpha1.MaxRolloutHistory {
		h.Notes = append(h.Notes, fmt.Sprintf("The pool keeps its newest %d rollouts, and of the older ones the "+
			"newest %d that were halted or reverted", v1alpha1.MaxRolloutHistory, v1alpha1.MaxFailedHistory))
	}
	return h, nil
}

// withCommits adds the commits of a source that caused no rollout, each at its time.
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

// rolloutRows returns the rollouts of a pool, newest first. Those that end with its next decision are shown as the
// controller is about to record them.
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
		row.RowOutcome, row.Before = endOf(f, o), o.Before
		row.At = row.Began
		setSecrets(f, &row, o.Began.Time, ended[i+1:])
		rows = append(rows, row)
	}
	return rows
}

// setSecrets adds the changes of secrets to a rollout that brought new values. The parameter older has the rollouts
// before it.
func setSecrets(f *fleet.Fleet, row *Row, began time.Time, older []v1alpha1.RolloutOutcome) {
	if row.Cause != v1alpha1.RolloutCauseSecrets {
		return
	}
	row.API, row.After, row.NewSecrets = nil, nil, true
	after := time.Time{}
	if len(older) > 0 {
		after = older[0].Began.Time
	}
	row.Secrets = f.SecretsChangedIn(row.Rendered, after, began)
}

// progressOf is for a rollout that has not ended.
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
		if out.Updated == out.Nodes {
			out.Outcome += ", until all are healthy"
		}
	}
	return out
}

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

// newRow returns a rollout without its outcome. If the pool does not record who requested the config, the histories of
// the sources do.
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
	for i := range f.Rendered { // by index, because the overview does this for each rollout of each pool
		r := &f.Rendered[i]
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

func endOf(f *fleet.Fleet, o v1alpha1.RolloutOutcome) RowOutcome {
	out := RowOutcome{
		Result: Result(o.Result), Updated: o.Updated, Nodes: o.Nodes, Began: fleet.TimeOrNil(o.Began.UTC()),
		Ended: fleet.TimeOrNil(o.Ended.UTC()), Back: o.Back, Why: o.Why, Next: o.Next,
		Failed: o.Failed, UpdatedBefore: o.UpdatedBefore, RanBefore: o.Nodes > 0 && o.UpdatedBefore >= o.Nodes,
	}
	for i := range f.Sources {
		for _, e := range f.Sources[i].Status.History {
			if o.Next != nil && o.Next.Revision == e.Revision && out.nextSubject == "" {
				out.nextSubject = e.Subject
			}
		}
	}
	out.Outcome = out.text()
	return out
}

func sourceNotes(src *v1alpha1.GitSource, pool string) (notes []string) {
	s := src.Status
	has := func(e v1alpha1.HistoryEntry) bool { return e.Revision == s.ObservedRevision }
	if s.ObservedRevision != "" && s.ObservedRevision != s.AppliedRevision && !slices.ContainsFunc(s.History, has) {
		notes = append(notes, fmt.Sprintf("GitSource %s has seen %s, which is not applied: bunsen why pool/%s",
			src.Name, fleet.ShortRevision(s.ObservedRevision), pool))
	}
	if len(fleet.AppliedHistory(src)) >= v1alpha1.MaxHistory {
		notes = append(notes, fmt.Sprintf("GitSource %s keeps %d commits; older ones without a rollout are not listed",
			src.Name, v1alpha1.MaxHistory))
	}
	return notes
}

func currentOutcome(f *fleet.Fleet, v *fleet.Pool) RowOutcome {
	counts, failed := v.Counts(), 0
	for _, row := range v.Rows {
		if row.Step == fleet.StepFailed && row.Desired == v.Facts.Target && row.Current != row.Desired {
			failed++
		}
	}
	out := RowOutcome{Result: currentResult(v), Updated: counts.Updated, Nodes: counts.Nodes, Failed: failed}
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

type commit struct {
	pool     *fleet.Pool
	entry    *v1alpha1.HistoryEntry
	rollouts []Row
	// when it was applied or refused
	at time.Time
	// the later commits of the source; true for the newest applied one
	newer  []v1alpha1.HistoryEntry
	newest bool
}

// outcome is zero if a rollout has the commit, or if the pool did not exist.
func (c commit) outcome() RowOutcome {
	name, e := c.pool.Object.Name, c.entry
	if c.pool.Object.CreationTimestamp.After(c.at) {
		return RowOutcome{}
	}
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
	case slices.ContainsFunc(c.rollouts, isCause):
		return RowOutcome{}
	case slices.Contains(e.Held, name) && (config == "" || config != inForce.before):
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

// configs are those of a pool around a point in time; empty if no rollout is recorded.
type configs struct {
	// of the last rollout that began before it, and of the first one after it
	before, next string
}

// inForce returns the configs around the time when the commit was applied. The rollout of an earlier commit can begin a
// moment after that, so the next one matters too, unless a later commit is its cause.
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
