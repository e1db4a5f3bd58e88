package poolstate

import (
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"
)

// Candidate says why a node may be assigned the target.
type Candidate int

// The values of Candidate, in the order of assignment.
const (
	// not assigned the target: the node already has it, or another change has to happen first
	NotCandidate Candidate = iota
	// gets the labels of the pool for which the server admitted it, and then belongs there
	CandidateLabel
	// runs the target, but another config is desired; the assignment disrupts nothing
	CandidateCurrent
	// failed another config and is out of service, and no administrator cordoned it; the target may fix it
	CandidateFailed
	// not Ready without a failure, for example after a config that breaks the kubelet; after too long treated like
	// CandidateFailed
	CandidateNotReady
	// changes to another config, and can change to the target instead, without an additional place in the budget
	CandidateChanging
	// runs pods and counts as unavailable, for example because of drift; the target may fix it, and it keeps its place
	// in the budget
	CandidateDegraded
	// runs pods, and needs an additional place in the budget
	CandidateInService
	candidateKinds
)

// Member is a node, classified for a decision about one target.
type Member struct {
	*Node
	// The target is the desired config. The node runs it.
	Assigned, Updated bool
	// Failed: the node failed the target. Unstarted: a node in service was assigned the target and has not started; its
	// daemon still reports the failure of another config, or its drain does not succeed. Gated: a Ready node with the
	// target has a closed gate. Each takes one place in the budget.
	Failed, Unstarted, Gated bool
	// The node runs the target, is Ready, and its gates are open.
	Healthy bool
	// The canary's selector matches the node.
	Canary    bool
	Candidate Candidate
	// when a drain for the target was postponed; zero for never
	PostponedAt time.Time
	// The controller runs on the node.
	RunsController bool
}

// Changing reports whether the node runs a config other than the desired config.
func (m *Member) Changing() bool { return m.Config.Current != m.Config.Desired }

// Places returns how many places the node takes in a budget: one if it is unavailable, and one more if it failed the
// target, because it may become unavailable at any time.
func (m *Member) Places() int {
	n := 0
	for _, takesPlace := range []bool{m.Unavailable(), m.Failed, m.Unstarted, m.Gated} {
		if takesPlace {
			n++
		}
	}
	return n
}

// Totals has numbers of nodes. Behind counts the nodes that do not run the target.
type Totals struct{ Nodes, Assigned, Healthy, Failed, Gated, Behind, Changing int }

func (t *Totals) add(m *Member) {
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	t.Nodes++
	count(&t.Assigned, m.Assigned)
	count(&t.Healthy, m.Healthy)
	count(&t.Failed, m.Failed)
	count(&t.Gated, m.Gated)
	count(&t.Behind, !m.Updated)
	count(&t.Changing, m.Changing())
}

// Counts are the numbers of a pool's status.
type Counts struct {
	// the size of the pool
	Machines int
	// nodes that run the target, and of those the ones that accept pods
	Updated, Ready int
	// out of service or at work
	Unavailable int
	// nodes at work, not Ready or cordoned: the unavailable ones except those that only report drift; and those at work
	// or not Ready, so that a cordon alone does not count
	Out, Down int
	// places of the budget that are taken: one by each unavailable node, one more if it failed the target, and one by
	// an updated node with a closed health gate
	Places int
	// nodes that report a failure
	Degraded int
}

// With returns the counts with one more node, which takes places in the budget.
func (c Counts) With(n *Node, target v1alpha1.ConfigVersion, places int) Counts {
	c.Machines++
	c.Places += places
	if n.Unavailable() {
		c.Unavailable++
		idle := n.Health.Trouble == "" && n.Degraded() // It failed a config, or reports drift.
		if !n.Ready() || !idle {
			c.Out++
		}
		if !idle && (n.Health.Trouble != "" || !n.Done()) {
			c.Down++
		}
	}
	if n.Degraded() {
		c.Degraded++
	}
	if n.UpdatedTo(target) {
		c.Updated++
		if n.Ready() {
			c.Ready++
		}
	}
	return c
}

// Converged reports whether every node runs the target and accepts pods.
func (c Counts) Converged() bool {
	return c.Updated == c.Machines && c.Ready == c.Machines && c.Unavailable == 0
}

// Count counts the nodes of a pool for its target, whatever the time: a gate that requires a node to be Ready for a
// duration counts as open.
func Count(f Facts) Counts {
	var c Counts
	for _, n := range f.Care.NodeConfigs.InTermsOf(f.Nodes, f.Target) {
		m := n.member(f.Target, nil)
		c = c.With(m.Node, f.Target, m.Places())
	}
	return c
}

// Members are the nodes of a pool, each classified for one target.
type Members struct {
	Target v1alpha1.ConfigVersion
	// of the pool, and those that take places in the budget; sorted by name
	All, Occupying []*Member
	// by kind, in the order of assignment; and those of CandidateNotReady, with those of CandidateChanging that are not
	// Ready
	Candidates [candidateKinds][]*Member
	NotReady   []*Member
	// A node counts as updated if it has the config that the pool should run, even if the target is another one.
	Counts        Counts
	Total, Canary Totals
	// nodes that change their config, without those that failed another one than the target
	AtWork int
	// by name
	Zones map[string]Zone
}

// Zone counts the pool's nodes in one topology zone, and the places that they take.
type Zone struct{ Nodes, Places int }

// PoolSettings are the settings of a pool for the classification of its nodes.
type PoolSettings struct {
	// what the pool should run; in a reverted pool, nodes are assigned another config
	Target v1alpha1.ConfigVersion
	// nil for none
	Canary labels.Selector
	// those for which nodes of this pool may have been admitted
	Customs []Custom
	// the controller's own node; empty if unknown
	Host string
}

// Classify classifies the nodes of a pool for a decision that assigns the target. The nodes are sorted by name.
func Classify(nodes []Node, target v1alpha1.ConfigVersion, p PoolSettings) Members {
	s := Members{Target: target, Zones: map[string]Zone{}, All: make([]*Member, len(nodes))}
	list := make([]Member, len(nodes))
	for i := range nodes {
		m := &list[i]
		*m = nodes[i].member(target, p.Customs)
		m.Canary = p.Canary != nil && p.Canary.Matches(labels.Set(m.Labels))
		m.RunsController = m.Name == p.Host
		s.All[i] = m
		s.add(m, p.Target)
	}
	for _, list := range append(s.Candidates[CandidateCurrent:], s.NotReady) {
		slices.SortFunc(list, (*Member).compare)
	}
	return s
}

// member classifies one node for the target. pools are the custom pools for which the server may have admitted it.
func (n *Node) member(target v1alpha1.ConfigVersion, pools []Custom) Member {
	m := Member{Node: n, Assigned: n.assigned(target), Updated: n.UpdatedTo(target)}
	if n.Failing() && n.Config.Desired == target {
		unstarted := n.Step.Draining || n.FailedOther(target)
		m.Failed, m.Unstarted = !unstarted, unstarted && n.Ready()
	}
	m.Gated = m.Updated && n.Ready() && n.Gate != ""
	m.Healthy = m.Updated && n.Ready() && n.Gate == ""
	switch {
	case !m.Assigned:
		m.Candidate = n.candidateFor(target, pools)
	case n.needsLabels(pools):
		// The daemon may have reported a failure before the config that it booted with. The node was then assigned the
		// config of the pool to which nodes without labels belong.
		m.Candidate = CandidateLabel
	}
	if n.Postponed.For == target {
		m.PostponedAt = n.Postponed.At
	}
	return m
}

// candidateFor is for a node without the target.
func (n *Node) candidateFor(target v1alpha1.ConfigVersion, pools []Custom) Candidate {
	c := n.Config
	switch {
	case n.needsLabels(pools):
		return CandidateLabel
	case n.Cordon.ByAdministrator(): // An administrator cordoned the node, so it is no candidate even if it failed.
		return NotCandidate
	case c.Current == target && !c.layered():
		return CandidateCurrent
	case n.Failing() && !n.Ready():
		return CandidateFailed
	case !n.Failing() && c.changesToOther(target):
		return CandidateChanging
	case n.Health.Trouble != "" && !c.Current.IsZero():
		return CandidateNotReady
	case n.Ready() && n.Degraded() && !n.Failing():
		return CandidateDegraded
	case n.Ready():
		return CandidateInService
	}
	return NotCandidate
}

// changesToOther reports whether the desired config is neither the current one nor the target.
func (c Configs) changesToOther(target v1alpha1.ConfigVersion) bool {
	return !c.Desired.IsZero() && c.Desired != target && c.Desired != c.Current
}

// add counts a node. configured is what the pool should run.
func (s *Members) add(m *Member, configured v1alpha1.ConfigVersion) {
	places := m.Places()
	if places > 0 {
		s.Occupying = append(s.Occupying, m)
	}
	if m.Candidate != NotCandidate {
		s.Candidates[m.Candidate] = append(s.Candidates[m.Candidate], m)
	}
	if m.Candidate == CandidateNotReady || m.Candidate == CandidateChanging && m.Health.Trouble != "" {
		s.NotReady = append(s.NotReady, m)
	}
	if m.Changing() && (!m.Failing() || m.Config.Desired == s.Target) {
		s.AtWork++
	}
	s.Total.add(m)
	if m.Canary {
		s.Canary.add(m)
	}
	z := s.Zones[m.Zone]
	s.Zones[m.Zone] = Zone{z.Nodes + 1, z.Places + places}
	s.Counts = s.Counts.With(m.Node, configured, places)
}

// Only returns the members without the candidates for which the function open returns false.
func (s Members) Only(open func(*Member) bool) Members {
	for kind, list := range s.Candidates {
		s.Candidates[kind] = Filter(list, open)
	}
	s.NotReady = Filter(s.NotReady, open)
	return s
}

// ByName returns the node with a name; nil if the pool has none.
func (s *Members) ByName(name string) *Member {
	i, found := slices.BinarySearchFunc(s.All, name, func(m *Member, name string) int {
		return strings.Compare(m.Name, name)
	})
	if !found {
		return nil
	}
	return s.All[i]
}

// compare orders candidates as they are assigned. Those with a postponed drain are last, by the time of that, and just
// before them comes the controller's own node. Of the others, failed nodes come first, because a new target may fix
// them; then the zone counts, with nodes without one last, and the age, the oldest first.
func (m *Member) compare(other *Member) int {
	switch {
	case !m.PostponedAt.Equal(other.PostponedAt):
		// Zero, without a postponed drain, comes first.
		return m.PostponedAt.Compare(other.PostponedAt)
	case m.RunsController != other.RunsController:
		return falseFirst(m.RunsController)
	case m.Failing() != other.Failing():
		return falseFirst(other.Failing())
	case (m.Zone == "") != (other.Zone == ""):
		return falseFirst(m.Zone == "")
	case m.Zone != other.Zone:
		return strings.Compare(m.Zone, other.Zone)
	case !m.Created.Equal(other.Created):
		return m.Created.Compare(other.Created)
	}
	return strings.Compare(m.Name, other.Name)
}

// falseFirst compares two different booleans, of which first is the first.
func falseFirst(first bool) int {
	if first {
		return 1
	}
	return -1
}
