package rollout

import (
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/pace"
)

// Others are the pools of a cluster, as they concern a decision on one of them.
type Others struct {
	// Pools by name, the one that is decided on among them.
	Pools map[string]*mcfgv1.MachineConfigPool
	// Policies of the cluster.
	Policies []v1alpha1.RolloutPolicy
	// Customs is what NewCustoms makes of all pools.
	Customs []Custom
	// Count gives a pool's numbers, without regard to the pools around it.
	Count func(*mcfgv1.MachineConfigPool) Counts
}

// Surround fills in Care.Around of a pool's facts, and adds to Care.Invalid what of a shared budget cannot be read. ahead are
// the pools whose objects it looked at, counted those whose nodes it counted, own left out: a change of either may change
// the decision.
func (o Others) Surround(own *mcfgv1.MachineConfigPool, f *Facts) (ahead, counted []string) {
	p := f.Care.Pace
	a := Around{Customs: o.Customs}
	for _, name := range AheadOf(own.Name, p) {
		if o.Pools[name] == nil && !slices.Contains(p.After, name) {
			continue // a cluster without masters
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
			f.Care.unreadable(err)
		}
		a.Together = append(a.Together, shared)
	}
	if arbiter := o.Pools[arbiterPool]; own.Name == masterPool && arbiter != nil {
		a.Quorum = NewQuorum(own.Name, map[string]Counts{arbiterPool: count(arbiter)})
	}
	f.Care.Around = a
	return ahead, counted
}

// cycle are pools that wait for each other, and this one for them.
func (o Others) cycle(own string) []string {
	after, next := map[string][]string{}, []string{own}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		pool := o.Pools[name]
		if _, seen := after[name]; seen || pool == nil {
			continue
		}
		p, err := pace.For(pool, o.Policies)
		if err != nil {
			p = pace.Pace{} // such a pool is not rolled out, and says why
		}
		after[name] = AheadOf(name, p)
		next = append(next, after[name]...)
	}
	return pace.Cycle(after)
}
