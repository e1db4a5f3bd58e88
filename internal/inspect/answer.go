package inspect

import (
	"cmp"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// Outcome is the state of a pool, node or source, as one word.
type Outcome = v1alpha1.Outcome

// The values of Outcome, the best first.
const (
	Fine        = v1alpha1.OutcomeFine
	Progressing = v1alpha1.OutcomeProgressing
	Waiting     = v1alpha1.OutcomeWaiting
	Unknown     = v1alpha1.OutcomeUnknown
	Blocked     = v1alpha1.OutcomeBlocked
	Degraded    = v1alpha1.OutcomeDegraded
)

// Answer is one reason why a pool, node or source waits.
type Answer struct {
	Outcome Outcome         `json:"outcome"`
	Cause   poolstate.Cause `json:"cause,omitempty"`
	// Reason is the reason as a sentence.
	Reason string `json:"reason"`
	// Until is when the reason ends by itself; it is nil if the end is unknown.
	Until *time.Time `json:"until,omitempty"`
	// Do are commands that help.
	Do []string `json:"do,omitempty"`
}

// WorstFirst sorts answers by outcome. Answers with the same outcome stay in their order.
func WorstFirst(answers []Answer) []Answer {
	slices.SortStableFunc(answers, func(a, b Answer) int { return cmp.Compare(b.Outcome.Rank(), a.Outcome.Rank()) })
	return answers
}

// Short returns the reason on one line.
func (a Answer) Short() string {
	return fleet.Shorten(fleet.OneLine(a.Reason))
}

// When returns a text that says until when the reason holds.
func (a Answer) When(now time.Time) string {
	if a.Until == nil || a.Cause == poolstate.CauseWindow {
		return ""
	}
	return "; until " + fleet.Moment(*a.Until, nil, now)
}
