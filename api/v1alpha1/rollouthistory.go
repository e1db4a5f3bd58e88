package v1alpha1

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotation of a pool has the newest MaxRolloutHistory ended rollouts. It also has the newest MaxFailedHistory of
// the older rollouts that were halted or reverted, because people look for these after weeks. It has fewer if they are
// larger than MaxRolloutHistoryBytes, because all annotations of an object share 256 KiB.
const (
	MaxRolloutHistory      = 20
	MaxFailedHistory       = 20
	MaxRolloutHistoryBytes = 96 << 10
)

// RolloutOutcome is the result of the rollout of one config in one pool. RolloutHistoryAnnotation on the pool has a
// list of them. The controller adds an outcome in the write with which the rollout ends; while a rollout continues,
// only the RolloutRecord has it.
type RolloutOutcome struct {
	// Requester is who requested the config.
	Requester `json:",inline"`
	Config    string `json:"config"`
	// Secrets is the revision of the config's secrets; empty if it refers to none.
	Secrets string `json:"secrets,omitempty"`
	// Before is the config that was the pool's target before; empty if there was none.
	Before string        `json:"before,omitempty"`
	Result RolloutResult `json:"result"`
	// Updated is how many of the pool's Nodes ran the config when the rollout ended.
	Updated int `json:"updated"`
	Nodes   int `json:"nodes"`
	// Failed is how many nodes reported a failure of the config at that time.
	Failed int `json:"failed,omitempty"`
	// Began is when the config became the pool's target, or when a retry or a recovery began. Ended is when the rollout
	// completed, halted, reverted or was replaced.
	Began metav1.Time `json:"began"`
	Ended metav1.Time `json:"ended"`
	// UpdatedBefore is how many nodes of the pool already ran the config when the rollout began.
	UpdatedBefore int `json:"updatedBefore,omitempty"`
	// Back is the config to which a Reverted pool returned.
	Back string `json:"back,omitempty"`
	// Why is the reason of a halt or a revert, in at most 200 characters.
	Why string `json:"why,omitempty"`
	// Next is what replaced a Superseded rollout; otherwise nil.
	Next *NextRollout `json:"next,omitempty"`
}

// NextRollout names the rollout that replaced another one.
type NextRollout struct {
	// Cause of the rollout. Revision is its commit, if a commit is the cause.
	Cause    RolloutCause `json:"cause,omitempty"`
	Revision string       `json:"revision,omitempty"`
	// API is the newest change through the API, if such changes are the cause; otherwise nil.
	API *APIChange `json:"api,omitempty"`
}

// HasVerdict reports whether the rollout was halted or reverted.
func (o RolloutOutcome) HasVerdict() bool {
	return o.Result == RolloutWasHalted || o.Result == RolloutWasReverted
}

// IsOf reports whether the outcome is that of a record.
func (o RolloutOutcome) IsOf(r RolloutRecord) bool {
	return o.Config == r.Config && o.Secrets == r.Secrets && o.Began.Equal(&r.Began)
}

// RolloutResult is how a rollout ended.
type RolloutResult string

// Values of RolloutResult.
const (
	// RolloutCompleted means that every node of the pool ran the config and was healthy.
	RolloutCompleted RolloutResult = "RolledOut"
	// RolloutWasHalted means that too many nodes failed the config.
	RolloutWasHalted RolloutResult = "Halted"
	// RolloutWasReverted means that too many nodes failed the config, and the pool was reverted.
	RolloutWasReverted RolloutResult = "Reverted"
	// RolloutSuperseded means that another config became the pool's target before all nodes ran this one.
	RolloutSuperseded RolloutResult = "Superseded"
)

// ParseRolloutHistory reads RolloutHistoryAnnotation, newest first; an empty text is no history.
func ParseRolloutHistory(text string) ([]RolloutOutcome, error) {
	if text == "" {
		return nil, nil
	}
	var out []RolloutOutcome
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("reading annotation %s: %w", RolloutHistoryAnnotation, err)
	}
	return out, nil
}

// EarlierRollouts returns the ended rollouts of a pool without that of its record, newest first. It reads the
// annotations of the pool.
func EarlierRollouts(pool map[string]string) ([]RolloutOutcome, error) {
	past, err := ParseRolloutHistory(pool[RolloutHistoryAnnotation])
	r, unread := ParseRolloutRecord(pool[RolloutAnnotation])
	if len(past) > 0 && unread == nil && past[0].IsOf(r) {
		past = past[1:]
	}
	return past, err
}

// AddRolloutOutcomes returns the annotation's text with outcomes added, of which the first is the newest. If the
// earlier history is invalid, it begins again.
func AddRolloutOutcomes(text string, newest []RolloutOutcome) string {
	history, err := ParseRolloutHistory(text)
	if err != nil {
		history = nil
	}
	history = slices.Concat(newest, history)
	kept, failed := min(len(history), MaxRolloutHistory), 0
	out := history[:kept:kept]
	for _, o := range history[kept:] {
		if o.HasVerdict() && failed < MaxFailedHistory {
			failed++
			out = append(out, o)
		}
	}
	for {
		raw, err := json.Marshal(out)
		if err != nil {
			return "" // it consists of texts, numbers and times, which always marshal
		}
		if len(raw) <= MaxRolloutHistoryBytes || len(out) == 1 {
			return string(raw)
		}
		out = out[:len(out)-1]
	}
}
