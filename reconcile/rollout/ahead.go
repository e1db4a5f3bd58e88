package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/pace"
)

// NewAhead tells whether a pool that comes first is updated to the commit that own is at, and was well with that. other is nil where no pool has that
// name. Pools of different sources have no commit in common, and a pool without one none at all: then it is enough that the
// other runs what it should.
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
		a.Why = "not all of its nodes are well with " + target + " yet"
	default:
		a.Done = true
	}
	return a
}

// ended tells that a pool's record says so of its target. One that cannot be read says nothing.
func ended(p *mcfgv1.MachineConfigPool) bool {
	r, err := v1alpha1.ParseRolloutRecord(p.Annotations[v1alpha1.RolloutAnnotation])
	return err == nil && r.Config == p.Spec.Configuration.Name && r.Ended != nil
}

// AheadOf are the names of the pools that come before a pool: those of its pace, and the masters before the arbiter. A
// caller leaves out the masters' where there is none.
func AheadOf(pool string, p pace.Pace) []string {
	if pool == arbiterPool && !slices.Contains(p.After, masterPool) {
		return append(slices.Clone(p.After), masterPool)
	}
	return p.After
}

// NewShared sums up a budget that the pool own shares with others. pools has the counts of all pools that t selects, own
// among them; Wave.Counts are such, and so is Members.Count.
func NewShared(t pace.Together, own string, pools map[string]Counts) (Shared, error) {
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
	if s.Max, err = most(&t.Max, nodes); err != nil {
		return s, fmt.Errorf("reading maxUnavailableTogether %q of RolloutPolicy %q: %w; write a number such as 2, or a percentage such as \"10%%\"", t.Max.String(), t.Policy, err)
	}
	return s, nil
}

// NewQuorum is Around.Quorum of a pool: the masters wait while a node of the arbiter pool is out of service.
func NewQuorum(own string, pools map[string]Counts) string {
	if n := pools[arbiterPool].Unavailable; own == masterPool && n > 0 {
		return "a node of pool " + arbiterPool + " is out of service, and the masters need it for their quorum"
	}
	return ""
}
