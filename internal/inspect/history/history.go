package history

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// History is the commits of a pool, newest first, each with the result of its rollout.
type History struct {
	Pool string `json:"pool"`
	Rows []Row  `json:"history"`
	// Notes say which records are lost.
	Notes []string `json:"notes,omitempty"`
}

// Row is one commit and its result for the pool.
type Row struct {
	Source   string `json:"source,omitempty"`
	Revision string `json:"revision"`
	Subject  string `json:"subject"`
	Author   string `json:"author"`
	// At is the time by which rows are sorted, the newest first; nil if unknown. setTimes sets it.
	At *time.Time `json:"at,omitempty"`
	// Committed is the commit's own time.
	Committed *time.Time `json:"committed,omitempty"`
	// Rendered is the config that the commit gave the pool. RenderedAt is when that config was first created; nil if
	// unknown.
	Rendered   string     `json:"rendered,omitempty"`
	RenderedAt *time.Time `json:"renderedAt,omitempty"`

	Changes `json:",inline"`

	RowOutcome `json:",inline"`

	// entry is the commit in the source's history. It is nil for a row without a commit.
	entry *v1alpha1.HistoryEntry
	// rollout is the index of the row's outcome in the pool's past outcomes, for a row that was created from an
	// outcome. For the current rollout, rollout is currentRollout.
	rollout int
}

// Changes are the changes through the API that a row describes.
type Changes struct {
	// API are the changes through the API that requested the config; Row.Revision was applied at that time.
	API []v1alpha1.APIChange `json:"api,omitempty"`
	// After are the changes through the API that reverted earlier ones, so that the pool returned to the commit's
	// config.
	After []v1alpha1.APIChange `json:"after,omitempty"`
	// NewSecrets is true for the rollout of new values of the secrets of a config that the pool already had. Secrets
	// are the changes that caused it, newest first, as far as they are known.
	NewSecrets bool                    `json:"newSecrets,omitempty"`
	Secrets    []v1alpha1.SecretChange `json:"secrets,omitempty"`
}

// RowOutcome is the result of a commit for a pool, or its progress.
type RowOutcome struct {
	// Result is the result as a stable word.
	Result Result `json:"result"`
	// Updated is how many of the Nodes ran the config when the rollout ended, or run it now. Updated and Nodes are 0 if
	// there was no rollout.
	Updated int `json:"updated"`
	Nodes   int `json:"nodes"`
	// Began and Ended are times of the rollout; nil if they are unknown. Ended is nil while the rollout continues.
	Began *time.Time `json:"began,omitempty"`
	Ended *time.Time `json:"ended,omitempty"`
	// Failed nodes reported a failure of the config when the rollout ended or was replaced.
	Failed int `json:"failed,omitempty"`
	// UpdatedBefore is how many nodes already ran the config when the rollout began. RanBefore is true if all nodes
	// already ran the config, so that no node was updated.
	UpdatedBefore int  `json:"updatedBefore,omitempty"`
	RanBefore     bool `json:"ranBefore,omitempty"`
	// By is the revision that replaced the commit.
	By string `json:"by,omitempty"`
	// Back is the config to which the pool was reverted.
	Back string `json:"back,omitempty"`
	// Why is the reason why the commit was refused, halted or reverted, or why its rollout waits.
	Why string `json:"why,omitempty"`
	// Outcome is the whole result as text.
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
	// ResultNoEffect: the commit changed nothing for the pool.
	ResultNoEffect Result = "NoEffect"
	// ResultRollingOut, ResultWaiting, ResultPaused: the rollout continues, waits, or is paused.
	ResultRollingOut Result = "RollingOut"
	ResultWaiting    Result = "Waiting"
	ResultPaused     Result = "Paused"
	// ResultNoNodes: the pool has no nodes.
	ResultNoNodes Result = "NoNodes"
	// ResultUnknown: the result was not recorded.
	ResultUnknown Result = "Unknown"
)

// New combines the histories of the sources, the pool's record and history, and the rendered configs.
func New(c fleet.Cluster, pool string, now time.Time) (History, error) {
	return Of(fleet.New(c, now), pool)
}

// Of returns the history of a pool, like New, for a cluster whose decisions are known.
func Of(f *fleet.Fleet, pool string) (History, error) {
	v, err := f.FindPool(pool)
	if err != nil {
		return History{}, err
	}
	h := History{Pool: pool, Rows: []Row{}}
	for i := range f.Sources {
		src := &f.Sources[i]
		if of := v.Object.Annotations[v1alpha1.SourceAnnotation]; of == "" || of == src.Name ||
			fleet.GavePool(src, pool) {
			addSource(&h, f, src)
		}
	}
	slices.SortStableFunc(h.Rows, func(a, b Row) int {
		if a.Source == b.Source || a.Committed == nil || b.Committed == nil {
			return 0
		}
		return b.Committed.Compare(*a.Committed)
	})
	past, err := v1alpha1.ParseRolloutHistory(v.Object.Annotations[v1alpha1.RolloutHistoryAnnotation])
	if err != nil {
		h.Notes = append(h.Notes, "older results are lost: "+err.Error())
	}
	h.Rows = withSecretsRows(f, v, withAPIRows(f, v, h.Rows, past), past)
	used := setOutcomes(f, v, h.Rows, past)
	h.Rows = withRetries(f, withCurrent(f, v, h.Rows), past, used)
	h.Rows = append(h.Rows, unusedOutcomes(f, v, past, used)...)
	h.Rows = append(h.Rows, unlistedConfigs(f, v, h.Rows)...)
	sortByTime(h.Rows)
	if rows := h.Rows; f.Secrets.Note != "" && slices.ContainsFunc(rows, func(r Row) bool { return r.NewSecrets }) {
		h.Notes = append(h.Notes, "Which secrets changed is "+f.Secrets.Note)
	}
	if ofGoneSource(f, h.Rows) {
		h.Notes = append(h.Notes, "Earlier commits were recorded by a GitSource that is gone; those that were "+
			"refused or had no effect are not listed")
	}
	return h, nil
}

// addSource adds the commits of a source, and notes on the commits that its history has lost.
func addSource(h *History, f *fleet.Fleet, src *v1alpha1.GitSource) {
	if row, no := refusedRow(src); no {
		h.Rows = append(h.Rows, row)
	} else if s := src.Status; s.ObservedRevision != "" && s.ObservedRevision != s.AppliedRevision &&
		!remembers(src, s.ObservedRevision) {
		h.Notes = append(h.Notes, fmt.Sprintf("GitSource %s has seen %s, which is not applied: bunsen why pool/%s",
			src.Name, fleet.ShortRevision(s.ObservedRevision), h.Pool))
	}
	for j := range src.Status.History {
		h.Rows = append(h.Rows, historyRow(f, src.Name, &src.Status.History[j], h.Pool))
	}
	if len(fleet.AppliedHistory(src)) >= v1alpha1.MaxHistory {
		h.Notes = append(h.Notes, fmt.Sprintf("GitSource %s keeps %d commits; older ones are not listed", src.Name,
			v1alpha1.MaxHistory))
	}
}

// remembers reports whether a source's history has a revision.
func remembers(src *v1alpha1.GitSource, revision string) bool {
	return slices.ContainsFunc(src.Status.History, func(e v1alpha1.HistoryEntry) bool { return e.Revision == revision })
}

// refusedRow returns the newest commit of a source if it was refused and the history does not have it, as with an older
// controller.
func refusedRow(src *v1alpha1.GitSource) (Row, bool) {
	s := src.Status
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ReadyCondition)
	if c == nil || c.Status != metav1.ConditionFalse || !meta.IsStatusConditionTrue(s.Conditions,
		v1alpha1.StalledCondition) {
		return Row{}, false
	}
	row := Row{Source: src.Name, Revision: s.ObservedRevision}
	problem, _ := fleet.SourceProblem(src, c.Message)
	row.RowOutcome = refusedOutcome(problem, "")
	return row, row.Revision != "" && row.Revision != s.AppliedRevision && !remembers(src, row.Revision)
}

func historyRow(f *fleet.Fleet, source string, e *v1alpha1.HistoryEntry, pool string) Row {
	row := Row{
		Source: source, Revision: e.Revision, Subject: e.Subject, Author: e.Author,
		Committed: fleet.TimeOrNil(e.Time.UTC()), Rendered: e.Pools[pool], entry: e,
	}
	row.RenderedAt = renderedAt(f, row.Rendered)
	return row
}

// renderedAt returns when a config was created; nil if unknown.
func renderedAt(f *fleet.Fleet, name string) *time.Time {
	for _, r := range f.Rendered {
		if r.Name == name {
			return fleet.TimeOrNil(r.Created.UTC())
		}
	}
	return nil
}
