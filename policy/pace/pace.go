package pace

import (
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/window"
)

// Pace is how carefully one pool is rolled out. The zero Pace is the plain semantics of maxUnavailable. Nobody writes into
// what it points to.
type Pace struct {
	// Policies that speak here, the one that speaks most closely first; empty: none.
	Policies []string
	// MaxUnavailable takes the place of the pool's own; nil: the pool's own.
	MaxUnavailable *intstr.IntOrString
	// PerZone limits each zone of the pool; nil: no such limit.
	PerZone *intstr.IntOrString
	// Together are the budgets that the pool shares with others, by the policy's closeness.
	Together []Together
	// Steps in order, the canary first. What no step covers is the last one, and is not listed.
	Steps []Step
	// Gates of all policies, those of the closest first.
	Gates []v1alpha1.HealthGate
	// Failures says when a rollout ends before its time.
	Failures Failures
	// After are the pools that come first, each once, in alphabetical order.
	After []string
	// Windows of all policies.
	Windows window.Set
	// Drain says what becomes of drains that are held up.
	Drain Drain
}

// Together is a budget that several pools share.
type Together struct {
	// Policy that has it.
	Policy string
	// Max is a number, or a percentage of the nodes of all its pools.
	Max intstr.IntOrString

	pools selection
}

// Selects tells whether a pool's nodes count in the budget.
func (t Together) Selects(pool *mcfgv1.MachineConfigPool) bool {
	return t.pools.closeness(pool) != notAtAll
}

// Step is a part of a rollout.
type Step struct {
	// Canary is the first step of a policy that has one.
	Canary bool
	// Selector picks the nodes; nil: by count.
	Selector labels.Selector
	// UpTo is how many nodes of the pool run the config at the end of the step, those of the steps before counted. It means
	// nothing beside a Selector.
	UpTo intstr.IntOrString
	// Soak is how long its nodes have to be well before the next step.
	Soak time.Duration
}

// Size is UpTo for a pool of that many nodes: a percentage rounded up, and at least 1. It may be more than there are nodes.
// It is 0 for a step with a Selector.
func (s Step) Size(nodes int) int {
	if s.Selector != nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&s.UpTo, nodes, true)
	if err != nil {
		return 1 // Check lets none of these through
	}
	return max(1, n)
}

// Failures says how many nodes may fail a config.
type Failures struct {
	// After is how many failed nodes end the rollout; 0 only where no policy speaks: never.
	After int
	// Action at that moment.
	Action v1alpha1.FailureAction
	// NodeDeadline is how long a node that was told may be not Ready before it counts as failed; 0: for ever.
	NodeDeadline time.Duration
}

// Drain says what becomes of a drain that is held up.
type Drain struct {
	// WhenBlocked is what happens after After; empty is DrainWait.
	WhenBlocked v1alpha1.DrainAction
	// After is how long a drain is tried first.
	After time.Duration
}
