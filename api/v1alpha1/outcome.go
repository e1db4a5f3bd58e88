package v1alpha1

import "slices"

// Outcome is the state of a pool, a node, a GitSource or the whole cluster, as one word.
// +kubebuilder:validation:Enum=Fine;Progressing;Waiting;Blocked;Unknown;Degraded
type Outcome string

// The values of Outcome, the best first.
const (
	// OutcomeFine: it waits for nothing.
	OutcomeFine Outcome = "Fine"
	// OutcomeProgressing: the update continues by itself.
	OutcomeProgressing Outcome = "Progressing"
	// OutcomeWaiting: the update waits for something that ends by itself: a soak, a window, a gate that needs time, the
	// end of a pause, another pool, the next try.
	OutcomeWaiting Outcome = "Waiting"
	// OutcomeBlocked: the update needs a user.
	OutcomeBlocked Outcome = "Blocked"
	// OutcomeUnknown: nothing reports any more, so the state is that of the last report. A user has to look. It is
	// worse than Blocked, because what blocks may follow from it.
	OutcomeUnknown Outcome = "Unknown"
	// OutcomeDegraded: the update needs a user, because nodes failed, the rollout was stopped, or a pool cannot be
	// rendered.
	OutcomeDegraded Outcome = "Degraded"
)

// Outcomes are all values of Outcome, the best first.
var Outcomes = []Outcome{
	OutcomeFine, OutcomeProgressing, OutcomeWaiting, OutcomeBlocked, OutcomeUnknown, OutcomeDegraded,
}

// Rank orders outcomes: the worse, the higher. A word that is no outcome has the rank -1.
func (o Outcome) Rank() int { return slices.Index(Outcomes, o) }

// Worse returns the worse of two outcomes.
func (o Outcome) Worse(other Outcome) Outcome { return Outcomes[max(0, o.Rank(), other.Rank())] }

// NeedsUser reports whether somebody has to look or to act.
func (o Outcome) NeedsUser() bool { return o.Rank() >= OutcomeBlocked.Rank() }

// Verdict is the outcome of one pool, GitSource or node, with its main reason.
type Verdict struct {
	// Kind is MachineConfigPool, GitSource or Node.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
	// Outcome of the object.
	Outcome Outcome `json:"outcome"`
	// Cause is the main reason as a stable word; empty if it has none.
	// +optional
	Cause string `json:"cause,omitempty"`
	// Message is the main reason as a sentence without a subject, such as "paused by ada: audit".
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
}
