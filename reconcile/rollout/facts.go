package rollout

import (
	"errors"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/pace"
)

// Facts are all that a decision on a pool depends on, besides the time.
type Facts struct {
	// Pool is the pool's name.
	Pool string
	// Target is the rendered config that the pool should run; empty while nothing is rendered.
	Target string
	// Requester is who asked for Target; the zero Requester where that is not known.
	Requester v1alpha1.Requester
	// Paused pools are told nothing.
	Paused bool
	// PausedBy says in words who paused it and why; empty where that is not known.
	PausedBy string
	// MaxUnavailable is the pool's own budget; see the function of that name. Below 1 nobody is told anything. A pace that
	// names one takes its place.
	MaxUnavailable int
	// Host is the node that the controller itself runs on, told last; empty if it is not known.
	Host string
	// Nodes are those whose primary pool this is. Any order gives the same Wave; by name is fastest. A decision of Members
	// does not look at them.
	Nodes []Node
	// Timestamps has explanations name points in time instead of ages; it decides nothing.
	Timestamps bool
	// Care is how carefully, and what is remembered. Its zero value is the plain semantics of maxUnavailable.
	Care Care
}

// Care is what a RolloutPolicy, the pool's annotations and the other pools add to a decision.
type Care struct {
	// Pace of the pool.
	Pace pace.Pace
	// Record as the pool has it; the zero Record where there is none.
	Record v1alpha1.RolloutRecord
	// Healthy is the last config that the whole pool was well with, which a revert goes back to; empty for none, or where it is
	// on the cluster no more. Record.Healthy says it, and where there is no record, status.configuration.name.
	Healthy string
	// Around is what other pools do.
	Around Around
	// Gates are the answers of jobs and queries. One that the pace names and that has no answer here waits.
	Gates []Gate
	// OpenUntil lets the pool be rolled out outside of its windows until then.
	OpenUntil time.Time
	// RetryAt lifts a verdict that is not younger.
	RetryAt time.Time
	// Invalid says in words what of the pool or its policies cannot be read; nobody is told anything while it does. A person
	// has to change something.
	Invalid string
	// Lost says in words that the pool's Record cannot be read, and so counts as absent.
	Lost string
}

// Around is what other pools mean for this one.
type Around struct {
	// Ahead are the pools that come before this one; NewAhead makes them.
	Ahead []Ahead
	// Together are the budgets that this pool shares with others; NewShared makes them.
	Together []Shared
	// Cycle are the pools that wait for each other through this one, in order; empty: none.
	Cycle []string
	// Quorum says in words why no node of this pool may be taken out of service for another pool's sake, as the masters may
	// not while the arbiter is; empty: nothing is in the way. NewQuorum makes it.
	Quorum string
	// Customs are the cluster's custom pools, so that a machine that booted into one is labelled for it; NewCustoms makes
	// them.
	Customs []Custom
}

// Ahead is a pool that has to be updated before this one begins.
type Ahead struct {
	// Pool by name.
	Pool string
	// Missing: there is no such pool, so that this one waits for ever.
	Missing bool
	// Done: it runs what the commit wants of it.
	Done bool
	// Why it is not done, in words.
	Why string
}

// Shared is a budget that nodes of several pools share.
type Shared struct {
	// Policy that has the budget.
	Policy string
	// Max places there are, and how many are Used by nodes of other pools.
	Max, Used int
	// Who of the other pools uses places, in words such as "infra 2, master 1"; Pools are their names.
	Who   string
	Pools []string
}

// Gate is the answer of a job or of a query.
type Gate struct {
	// Name of the gate in the pace.
	Name string
	// Verdict is the answer.
	Verdict GateVerdict
	// Why in words, where it is not open.
	Why string
}

// GateVerdict is what a gate says.
type GateVerdict string

// Values of GateVerdict.
const (
	// GateOpen: go on.
	GateOpen GateVerdict = "Open"
	// GateWaits: not yet, or there is no answer.
	GateWaits GateVerdict = "Waits"
	// GateFailed: the rollout ends, as if nodes had failed.
	GateFailed GateVerdict = "Failed"
)

// ReadFacts reads what a pool object and the cluster's policies say. Nodes, Host, Care.Around and Care.Gates are the caller's
// to fill in. What cannot be read is said in Care.Invalid. size is the number of the pool's nodes.
func ReadFacts(pool *mcfgv1.MachineConfigPool, policies []v1alpha1.RolloutPolicy, size int) Facts {
	f := Facts{Pool: pool.Name, Target: pool.Spec.Configuration.Name, Paused: pool.Spec.Paused, PausedBy: pool.Annotations[v1alpha1.PausedByAnnotation]}
	f.Requester.Revision = pool.Annotations[v1alpha1.RevisionAnnotation]
	if t, err := v1alpha1.ParsePoolTarget(pool.Annotations[v1alpha1.TargetAnnotation]); err == nil && t.Config == f.Target {
		f.Requester = t.Requester
	}
	c := &f.Care
	c.OpenUntil, c.RetryAt = readTime(pool.Annotations[v1alpha1.OpenUntilAnnotation]), readTime(pool.Annotations[v1alpha1.RetryAnnotation])
	record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		c.Lost = err.Error() + "; what the rollout remembered is lost, and it begins again"
	}
	c.Record, c.Healthy = record, HealthyConfig(pool)
	var budget, policy error
	f.MaxUnavailable, budget = MaxUnavailable(pool.Name, pool.Spec.MaxUnavailable, size)
	c.Pace, policy = pace.For(pool, policies)
	if err := errors.Join(SelectingAll(pool), budget, policy); err != nil {
		c.Invalid = err.Error()
	}
	return f
}

// HealthyConfig is the last config that the whole pool was healthy with, as its record has it; empty for none. Where there is no
// record that can be read, it is status.configuration.name.
func HealthyConfig(pool *mcfgv1.MachineConfigPool) string {
	if record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation]); err == nil && record.Config != "" {
		return record.Healthy
	}
	return pool.Status.Configuration.Name
}

// unreadable adds to what of the pool or its policies cannot be read.
func (c *Care) unreadable(err error) {
	if c.Invalid != "" {
		c.Invalid += "\n"
	}
	c.Invalid += err.Error()
}

// readTime reads an annotation's time; one that says nothing sensible counts as absent.
func readTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}
