package poolstate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/internal/schedule"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// Others has the pools of a cluster, for a decision about one of these pools.
type Others struct {
	// by name, including that of the decision
	Pools map[string]*mcfgv1.MachineConfigPool
	// those of the cluster
	Policies []v1alpha1.RolloutPolicy
	// among Pools
	Customs []Custom
	// the nodes of a pool
	Count func(*mcfgv1.MachineConfigPool) Counts
}

// Surround sets Care.Around of a pool's facts, and adds invalid shared budgets to Care.Invalid. It returns the pools
// whose objects it read, and the others whose nodes it counted. A change of these may change the decision.
func (o Others) Surround(own *mcfgv1.MachineConfigPool, f *Facts) (ahead, counted []string) {
	p := f.Care.Pace
	a := Around{Customs: o.Customs}
	for _, name := range AheadOf(own.Name, p) {
		if o.Pools[name] == nil && !slices.Contains(p.After, name) {
			continue // The cluster has no masters.
		}
		a.Ahead = append(a.Ahead, NewAhead(own, name, o.Pools[name]))
		ahead = append(ahead, name)
	}
	if len(ahead) > 0 {
		a.Cycle = o.cycle(own.Name)
	}
	count := func(other *mcfgv1.MachineConfigPool) Counts {
		if other.Name != own.Name && !slices.Contains(counted, other.Name) {
			counted = append(counted, other.Name)
		}
		return o.Count(other)
	}
	for _, t := range p.Together {
		counts := map[string]Counts{}
		for name, other := range o.Pools {
			if t.Selects(other) {
				counts[name] = count(other)
			}
		}
		shared, err := NewShared(t, own.Name, counts)
		if err != nil {
			f.Care.AddInvalid(err)
		}
		a.Together = append(a.Together, shared)
	}
	if masters, arbiter := o.Pools[membership.Master], o.Pools[ArbiterPool]; masters != nil && arbiter != nil &&
		(own.Name == membership.Master || own.Name == ArbiterPool) {
		a.Quorum = NewQuorum(own.Name, count(masters), count(arbiter))
	}
	f.Care.Around = a
	return ahead, counted
}

// cycle returns pools that wait for each other with this one.
func (o Others) cycle(own string) []string {
	after, next := map[string][]string{}, []string{own}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		pool := o.Pools[name]
		if _, seen := after[name]; seen || pool == nil {
			continue
		}
		p, err := schedule.PaceFor(pool, o.Policies)
		if err != nil {
			p = schedule.Pace{} // The other pool reports its invalid policy itself.
		}
		after[name] = AheadOf(name, p)
		next = append(next, after[name]...)
	}
	return schedule.Cycle(after)
}

// NewAhead returns the state of a pool that is updated before own. It is Done if it runs the config from own's commit
// and was healthy with it. One of another source, or without a source, only has to run its own target. other is nil if
// it does not exist.
func NewAhead(own *mcfgv1.MachineConfigPool, name string, other *mcfgv1.MachineConfigPool) Ahead {
	a := Ahead{Pool: name}
	if other == nil {
		a.Missing, a.Why = true, "there is no such pool"
		return a
	}
	at := func(p *mcfgv1.MachineConfigPool) (source, revision string) {
		return p.Annotations[v1alpha1.SourceAnnotation], p.Annotations[v1alpha1.RevisionAnnotation]
	}
	ownSource, ownRevision := at(own)
	source, revision := at(other)
	target := other.Spec.Configuration.Name
	switch {
	case source == ownSource && source != "" && revision != ownRevision:
		a.Why = fmt.Sprintf("it is at %s, this pool is at %s", revision, ownRevision)
	case target == "":
		a.Why = "nothing is rendered for it yet"
	case other.Status.Configuration.Name != target:
		a.Why = "not all of its nodes run " + target + " yet"
	case other.Status.MachineCount > 0 && !ended(other):
		a.Why = "not all of its nodes are healthy with " + target + " yet"
	default:
		a.Done = true
	}
	return a
}

// ended: the record says that the rollout of the target ended; not for an invalid one.
func ended(p *mcfgv1.MachineConfigPool) bool {
	r, err := v1alpha1.ParseRolloutRecord(p.Annotations[v1alpha1.RolloutAnnotation])
	// while new secrets are rolled out, Ended is nil
	return err == nil && r.Config == p.Spec.Configuration.Name && r.Ended != nil
}

// AheadOf returns the pools that are updated before a pool: those that its policy names, and for the arbiter pool the
// masters, even if the cluster has none.
func AheadOf(pool string, p schedule.Pace) []string {
	if pool == ArbiterPool && !slices.Contains(p.After, membership.Master) {
		return append(slices.Clone(p.After), membership.Master)
	}
	return p.After
}

// NewShared computes the use of a budget that own shares with other pools. pools has the counts of all that t selects,
// including own.
func NewShared(t schedule.Together, own string, pools map[string]Counts) (Shared, error) {
	s, nodes := Shared{Policy: t.Policy}, 0
	var who []string
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		c := pools[name]
		nodes += c.Machines
		if name == own || c.Places == 0 {
			continue
		}
		s.Used += c.Places
		who, s.Pools = append(who, fmt.Sprintf("%s %d", name, c.Places)), append(s.Pools, name)
	}
	s.Who = strings.Join(who, ", ")
	var err error
	if s.Max, err = ScaleLimit(&t.Max, nodes); err != nil {
		return s, &schedule.PolicyError{Policy: t.Policy, Err: fmt.Errorf("reading maxUnavailableTogether %q of "+
			"RolloutPolicy %q: %w; write a number such as 2, or a percentage such as \"10%%\"", t.Max.String(),
			t.Policy, err)}
	}
	return s, nil
}

// NewQuorum returns Around.Quorum of the masters and of the arbiter, which need two of their three nodes: the masters
// wait while the arbiter is out of service, and the arbiter waits while a master is at work, not Ready, cordoned or
// missing. If a master and the arbiter are both only cordoned, for example because both failed a config, the master is
// first; otherwise they would wait for each other.
func NewQuorum(own string, masters, arbiter Counts) string {
	masterFirst := masters.Out > 0 && masters.Down == 0 && arbiter.Down == 0
	switch {
	case own == membership.Master && arbiter.Unavailable > 0 && !masterFirst:
		return "a node of pool " + ArbiterPool + " is out of service, and the masters need it for their quorum"
	case own == ArbiterPool && masters.Out > 0:
		return "a node of pool " + membership.Master + " is out of service, and it needs the arbiter for its quorum"
	case own == ArbiterPool && masters.Machines == 1:
		return "pool " + membership.Master + " has one node, and an arbiter needs two masters for a quorum"
	}
	return ""
}
