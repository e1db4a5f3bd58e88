package reason

import (
	"cmp"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// Outcome is the state of a pool, node or source, as one word.
type Outcome string

// The values of Outcome, the best first.
const (
	// Fine: the pool, node or source waits for nothing.
	Fine Outcome = "Fine"
	// Progressing: the update continues by itself.
	Progressing Outcome = "Progressing"
	// Waiting: the update waits for something that ends by itself: a soak, a window, a gate that needs time, the end of
	// a pause, another pool, the next try.
	Waiting Outcome = "Waiting"
	// Blocked: the update needs a user.
	Blocked Outcome = "Blocked"
	// Degraded: the update needs a user, because nodes failed, the rollout was stopped, or a pool cannot be rendered.
	Degraded Outcome = "Degraded"
)

// outcomes are all values of Outcome, the best first.
var outcomes = []Outcome{Fine, Progressing, Waiting, Blocked, Degraded}

func (o Outcome) rank() int { return slices.Index(outcomes, o) }

// Worse returns the worse of two outcomes.
func (o Outcome) Worse(other Outcome) Outcome { return outcomes[max(0, o.rank(), other.rank())] }

// Answer is one reason why a pool, node or source waits.
type Answer struct {
	Outcome Outcome       `json:"outcome"`
	Cause   rollout.Cause `json:"cause,omitempty"`
	// Reason is the reason as a sentence.
	Reason string `json:"reason"`
	// Until is when the reason ends by itself; it is nil if the end is unknown.
	Until *time.Time `json:"until,omitempty"`
	// Do are commands that help.
	Do []string `json:"do,omitempty"`
}

// WorstFirst sorts answers by outcome. Answers with the same outcome stay in their order.
func WorstFirst(answers []Answer) []Answer {
	slices.SortStableFunc(answers, func(a, b Answer) int { return cmp.Compare(b.Outcome.rank(), a.Outcome.rank()) })
	return answers
}

// Short returns the reason on one line.
func (a Answer) Short() string {
	return fleet.Shorten(fleet.OneLine(a.Reason))
}

// When returns a text that says until when the reason holds.
func (a Answer) When(now time.Time) string {
	if a.Until == nil || a.Cause == rollout.CauseWindow {
		return ""
	}
	return "; until " + fleet.Moment(*a.Until, nil, now)
}
