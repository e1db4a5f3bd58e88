package gate

import (
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// Question describes which gates of a pool to evaluate.
type Question struct {
	// Pool is the pool that rolls out Config. Step is the current step, from 0.
	Pool, Config string
	Step         int
	// Began is when the rollout began. Began distinguishes rollouts, because jobs run again if a config returns later.
	Began time.Time
	// Due is true if the step's nodes are healthy, so that the step's jobs have to run now.
	Due bool
	// RetryAt is when a user requested a retry; zero for none. A job that failed before this time runs once more.
	RetryAt time.Time
	// Pace has the gates.
	Pace schedule.Pace
	// Now is the time of the evaluation.
	Now time.Time
}

// Open returns the answer of an open gate.
func Open() poolstate.Gate { return poolstate.Gate{Verdict: poolstate.GateOpen} }

// Waits returns the answer of a closed gate that may open later.
func Waits(format string, args ...any) poolstate.Gate {
	return poolstate.Gate{Verdict: poolstate.GateWaits, Why: fmt.Sprintf(format, args...)}
}

// prefixed returns a text with a prefix; empty for an empty text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
