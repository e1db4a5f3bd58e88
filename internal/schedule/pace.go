package schedule

import (
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Pace has the settings with which the controller rolls out one pool. With the zero Pace, only maxUnavailable limits
// the rollout. Callers must not change the values to which a Pace points.
type Pace struct {
	// Policies are the policies that select the pool, the most specific first.
	Policies []string
	// MaxUnavailable overrides the pool's maxUnavailable; nil: the pool's value applies.
	MaxUnavailable *intstr.IntOrString
	// PerZone limits each zone of the pool; nil for no limit.
	PerZone *intstr.IntOrString
	// Together are the budgets that the pool shares with other pools, those of the most specific policy first.
	Together []Together
	// Steps are the steps in order, the canary first. Steps does not contain the last step, which updates all other
	// nodes.
	Steps []Step
	// Gates are the gates of all policies, those of the most specific policy first.
	Gates []v1alpha1.HealthGate
	// Failures limits how many nodes may fail.
	Failures Failures
	// After are the pools that must be updated first, each once, in alphabetical order.
	After []string
	// Windows are the windows of all policies.
	Windows Windows
	// Drain says what the controller does about blocked drains.
	Drain Drain
}

// Together is a budget that several pools share.
type Together struct {
	// Policy is the name of the policy with the budget.
	Policy string
	// Max is a number, or a percentage of the nodes of all pools that share the budget.
	Max intstr.IntOrString

	pools selection
}

// Selects reports whether the budget counts a pool's nodes.
func (t Together) Selects(pool *mcfgv1.MachineConfigPool) bool {
	return t.pools.closeness(pool) != notAtAll
}

// Step is a part of a rollout.
type Step struct {
	// Canary is true for the canary, which is the first step.
	Canary bool
	// Selector selects the nodes; nil if the step counts nodes.
	Selector labels.Selector
	// UpTo is how many nodes of the pool run the config at the end of the step, including those of earlier steps. A
	// step with a Selector does not use it.
	UpTo intstr.IntOrString
	// Soak is how long the nodes of the step must be healthy before the next step starts.
	Soak time.Duration
}

// Size returns UpTo as a number of nodes: a percentage is rounded up, and the result is at least 1. It may be larger
// than the number of nodes. For a step with a Selector, Size returns 0.
func (s Step) Size(nodes int) int {
	if s.Selector != nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&s.UpTo, nodes, true)
	if err != nil {
		return 1 // Check refuses such a value.
	}
	return max(1, n)
}

// Failures says how many nodes may fail a config.
type Failures struct {
	// After is how many failed nodes stop the rollout. After is 0, which means no limit, only if no policy selects the
	// pool.
	After int
	// Action is the action when the rollout stops.
	Action v1alpha1.FailureAction
	// NodeDeadline is how long a node with a new config may be not Ready before it counts as failed; 0 for no limit.
	NodeDeadline time.Duration
}

// Drain says what the controller does about a blocked drain.
type Drain struct {
	// WhenBlocked is what the controller does when After has passed; empty is DrainWait.
	WhenBlocked v1alpha1.DrainAction
	// After is how long the controller tries a drain before it takes the action WhenBlocked.
	After time.Duration
}
