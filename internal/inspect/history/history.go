package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// History is the rollouts of a pool and the commits that no rollout brought to it, newest first.
type History struct {
	Pool string `json:"pool"`
	Rows []Row  `json:"history"`
	// Notes say which records are lost, and what is not recorded yet.
	Notes []string `json:"notes,omitempty"`
}

// Row is one rollout, or one commit without a rollout.
type Row struct {
	// Cause is what began the rollout; empty for a commit without a rollout, or if it was not recorded. By is who holds
	// the pool, and why.
	Cause    v1alpha1.RolloutCause `json:"cause,omitempty"`
	By       string                `json:"heldBy,omitempty"`
	Source   string                `json:"source,omitempty"`
	Revision string                `json:"revision"`
	Subject  string                `json:"subject"`
	Author   string                `json:"author"`
	// At is when the rollout began, or when the controller applied or refused the commit; nil if unknown.
	At *time.Time `json:"at,omitempty"`
	// Committed is the commit's own time.
	Committed *time.Time `json:"committed,omitempty"`
	// Rendered is the config that the commit gave the pool, and Before the config that the rollout replaced.
	// RenderedAt is when Rendered was first created; nil if unknown.
	Rendered   string     `json:"rendered,omitempty"`
	Before     string     `json:"before,omitempty"`
	RenderedAt *time.Time `json:"renderedAt,omitempty"`

	Changes `json:",inline"`

	RowOutcome `json:",inline"`
}

// Changes are the changes through the API that a row describes.
type Changes struct {
	// API are the changes through the API that requested the config; Row.Revision was applied at that time.
	API []v1alpha1.APIChange `json:"api,omitempty"`
	// AlsoCommit is true if API is not empty and the commit of Revision requested the config too.
	AlsoCommit bool `json:"alsoCommit,omitempty"`
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
	// Next is what replaced the rollout; otherwise nil.
	Next *v1alpha1.NextRollout `json:"next,omitempty"`
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
	// ResultNoNodes: the pool has no nodes.
	ResultNoNodes Result = "NoNodes"
	// ResultUnknown: the result is not recorded any more.
	ResultUnknown Result = "Unknown"
)

// New returns the history of a pool in a cluster.
func New(c fleet.Cluster, pool string, now time.Time) (History, error) {
	return Of(fleet.New(c, now), pool)
}

// Of returns the history of a pool, like New, for a cluster whose decisions are known.
//
// A rollout is shown as it was recorded. A row without a rollout is about a commit that the source recorded and that is
// the cause of no recorded rollout.
func Of(f *fleet.Fleet, pool string) (History, error) {
	v, err := f.FindPool(pool)
	if err != nil {
		return History{}, err
	}
	h := History{Pool: pool}
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

// sourceNotes returns notes about commits that a source has not recorded, or has forgotten.
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
