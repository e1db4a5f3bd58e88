package poolstate

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Candidate says why a node may be assigned the target.
type Candidate int

// The values of Candidate, in the order of assignment.
const (
	// NotCandidate nodes are not assigned the target: they already have the target, or another change has to happen
	// first.
	NotCandidate Candidate = iota
	// CandidateLabel nodes get the labels of the pool for which the server admitted them. With these labels,
	// CandidateLabel nodes belong to that pool.
	CandidateLabel
	// CandidateCurrent nodes run the target, but their desired config is another config. The assignment disrupts
	// nothing.
	CandidateCurrent
	// CandidateFailed nodes failed another config and are out of service, and no administrator cordoned them. The
	// target may fix such failed nodes.
	CandidateFailed
	// CandidateNotReady nodes are not Ready and report no failure, for example after a config that breaks the kubelet.
	// If CandidateNotReady nodes stay not Ready for too long, they are treated like CandidateFailed nodes.
	CandidateNotReady
	// CandidateChanging nodes change to another config. CandidateChanging nodes can change to the target instead, and
	// need no additional place in the budget.
	CandidateChanging
	// CandidateDegraded nodes run pods and count as unavailable, for example because of drift. The target may fix such
	// nodes, and they keep their place in the budget.
	CandidateDegraded
	// CandidateInService nodes run pods, and need an additional place in the budget.
	CandidateInService
	candidateKinds
)

// Member is a node, classified for a decision about one target.
type Member struct {
	*Node
	// Assigned is true if the target is the node's desired config. Updated is true if the node runs the target.
	Assigned, Updated bool
	// Failed is true if the node failed the target. Unstarted is true for a node in service that was assigned the
	// target and has not started the update. The daemon of an Unstarted node still reports the failure of another
	// config, or the drain of the node does not succeed. Gated is true for a Ready node with the target if one of its
	// gates is closed. Each of Failed, Unstarted and Gated takes one place in the budget.
	Failed, Unstarted, Gated bool
	// Healthy is true if the node runs the target, the node is Ready, and its gates are open.
	Healthy bool
	// Canary is true if the canary's selector matches the node.
	Canary    bool
	Candidate Candidate
	// PostponedAt is when a drain of the node for the target was postponed; zero for never.
	PostponedAt time.Time
	// RunsController is true if the controller runs on the node.
	RunsController bool
}

// Changing reports whether the node runs a config other than the desired config.
func (m *Member) Changing() bool { return m.Config.Current != m.Config.Desired }

// Places returns how many places the node takes in a budget. An unavailable node takes one place. A node that failed
// the target takes one more place, because it may become unavailable at any time.
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

// Members are the nodes of a pool, each classified for one target.
type Members struct {
	Target string
	// All are the nodes of the pool. Occupying are the nodes that take places in the budget. Both lists are sorted by
	// name.
	All, Occupying []*Member
	// Candidates has the nodes of each kind, in the order of assignment. NotReady has the nodes of CandidateNotReady,
	// and those of CandidateChanging that are not Ready.
	Candidates [candidateKinds][]*Member
	NotReady   []*Member
	// Counts are the pool's numbers. A node counts as updated if it has the config that the pool should run, even if
	// the target is another config.
	Counts        Counts
	Total, Canary Totals
	// AtWork is how many nodes change their config. AtWork does not include nodes that failed a config other than the
	// target.
	AtWork int
	// Zones has the zones by name.
	Zones map[string]Zone
}

// Zone counts the pool's nodes in one topology zone, and the places that they take.
type Zone struct{ Nodes, Places int }

// PoolSettings are the settings of a pool for the classification of its nodes.
type PoolSettings struct {
	// Target is the config that the pool should run. In a reverted pool, nodes are assigned another config.
	Target string
	// Canary matches the nodes of the canary; nil for none.
	Canary labels.Selector
	// Customs are the custom pools for which nodes of this pool may have been admitted.
	Customs []Custom
	// Host is the node on which the controller runs; empty if it is unknown.
	Host string
}

// Classify classifies the nodes of a pool for a decision that assigns the target. The nodes are sorted by name.
func Classify(nodes []Node, target string, p PoolSettings) Members {
	s := Members{Target: target, Zones: map[string]Zone{}, All: make([]*Member, len(nodes))}
	list := make([]Member, len(nodes))
	for i := range nodes {
		m := &list[i]
		*m = NewMember(&nodes[i], target, p.Customs)
		m.Canary = p.Canary != nil && p.Canary.Matches(labels.Set(m.Labels))
		m.RunsController = m.Name == p.Host
		s.All[i] = m
		s.add(m, p.Target)
	}
	for _, list := range append(s.Candidates[CandidateCurrent:], s.NotReady) {
		slices.SortFunc(list, assignmentOrder)
	}
	return s
}

// NewMember classifies one node for the target. The custom pools in the settings are those for which the server may
// have admitted the node.
func NewMember(n *Node, target string, pools []Custom) Member {
	m := Member{Node: n, Assigned: n.assigned(target), Updated: n.UpdatedTo(target)}
	if n.Failing() && n.Config.Desired == target {
		unstarted := n.Step.Draining || n.FailedOther(target)
		m.Failed, m.Unstarted = !unstarted, unstarted && n.Ready()
	}
	m.Gated = m.Updated && n.Ready() && n.Gate != ""
	m.Healthy = m.Updated && n.Ready() && n.Gate == ""
	switch {
	case !m.Assigned:
		m.Candidate = candidateFor(n, target, pools)
	case n.needsLabels(pools):
		// The daemon may have reported a failure before it reported the config that it booted with. In this case, the
		// node was assigned the config of the pool to which nodes without labels belong.
		m.Candidate = CandidateLabel
	}
	if n.Postponed.For == target {
		m.PostponedAt = n.Postponed.At
	}
	return m
}

// candidateFor returns which kind of candidate a node without the target is, if any.
func candidateFor(n *Node, target string, pools []Custom) Candidate {
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
	case n.Health.Trouble != "" && c.Current != "":
		return CandidateNotReady
	case n.Ready() && n.Degraded() && !n.Failing():
		return CandidateDegraded
	case n.Ready():
		return CandidateInService
	}
	return NotCandidate
}

// changesToOther reports whether the desired config is neither the current one nor the target.
func (c Configs) changesToOther(target string) bool {
	return c.Desired != "" && c.Desired != target && c.Desired != c.Current
}

// add adds a node to the counts and lists. The parameter configured is the config that the pool should run.
func (s *Members) add(m *Member, configured string) {
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

// assignmentOrder compares candidates. Nodes with a postponed drain are last, sorted by the time of the postponement.
// Just before these comes the node on which the controller runs. Of the other nodes, failed nodes come first, because a
// new target may fix them. Further nodes are sorted by zone, with nodes without a zone last, and by age, with the
// oldest node first.
func assignmentOrder(a, b *Member) int {
	switch {
	case !a.PostponedAt.Equal(b.PostponedAt):
		// The zero time, which is that of a node without a postponed drain, comes first.
		return a.PostponedAt.Compare(b.PostponedAt)
	case a.RunsController != b.RunsController:
		return falseFirst(a.RunsController)
	case a.Failing() != b.Failing():
		return falseFirst(b.Failing())
	case (a.Zone == "") != (b.Zone == ""):
		return falseFirst(a.Zone == "")
	case a.Zone != b.Zone:
		return strings.Compare(a.Zone, b.Zone)
	case !a.Created.Equal(b.Created):
		return a.Created.Compare(b.Created)
	}
	return strings.Compare(a.Name, b.Name)
}

// falseFirst compares two different booleans, so that false comes first. The parameter first is the first of the two.
func falseFirst(first bool) int {
	if first {
		return 1
	}
	return -1
}

// Custom is a custom pool into which a machine may have booted.
type Custom struct {
	// Pool is the name of the pool.
	Pool string
	// Labels are the labels that put a node into the pool.
	Labels map[string]string
}

// NewCustoms returns the custom pools whose labels the controller may set, sorted by name.
func NewCustoms(pools []*mcfgv1.MachineConfigPool) []Custom {
	var out []Custom
	for _, p := range pools {
		if p.Name == membership.Master || p.Name == membership.Worker ||
			membership.SelectsNothing(p.Spec.NodeSelector) {
			continue
		}
		labels := LabelsFor(p.Spec.NodeSelector)
		if slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(key string) bool { return !isSettable(key) }) {
			continue // Only an administrator labels nodes of such a pool.
		}
		out = append(out, Custom{Pool: p.Name, Labels: labels})
	}
	slices.SortFunc(out, func(a, b Custom) int { return strings.Compare(a.Pool, b.Pool) })
	return out
}

// LabelsFor returns the labels that every object needs to match a selector.
func LabelsFor(s *metav1.LabelSelector) map[string]string {
	if s == nil {
		return nil
	}
	out := maps.Clone(s.MatchLabels)
	if out == nil {
		out = map[string]string{}
	}
	for _, e := range s.MatchExpressions {
		switch {
		case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) == 1:
			out[e.Key] = e.Values[0]
		case e.Operator == metav1.LabelSelectorOpExists:
			if _, has := out[e.Key]; !has {
				out[e.Key] = ""
			}
		}
	}
	return out
}

// NeedsPoolCheck reports whether a node claims that it booted for a custom pool, and the controller has not read the
// server's records yet.
func (m NodeMarks) NeedsPoolCheck(customs []Custom) bool {
	return !m.Checked && find(customs, m.BootedPool()) != nil
}

// needsLabels reports whether the controller has to find out for which pool the server admitted the node, or has to set
// the labels of that pool.
func (m NodeMarks) needsLabels(customs []Custom) bool {
	return m.NeedsPoolCheck(customs) || m.AdmittedPool(customs) != nil
}

// BootedPool returns the pool in the name rendered-POOL-HASH of the config with which the node claims to have first
// booted. BootedPool returns "" if the name has no pool, and after the controller has labelled the node.
func (m NodeMarks) BootedPool() string { return v1alpha1.RenderedPool(m.Booted) }

// AdmittedPool returns the custom pool for which the server admitted the machine; nil for none. The node gets the
// labels of this pool.
func (m NodeMarks) AdmittedPool(customs []Custom) *Custom {
	if m.Booted == "" || m.Attested == "" {
		return nil
	}
	return find(customs, m.Attested)
}

func find(customs []Custom, pool string) *Custom {
	for i := range customs {
		if customs[i].Pool == pool {
			return &customs[i]
		}
	}
	return nil
}

// isSettable reports whether the controller may set a label of a Node. The rights in config/rbac allow only such
// labels, so that a stolen token of the controller cannot turn a node into a control plane node.
func isSettable(key string) bool {
	role, isRole := strings.CutPrefix(key, "node-role.kubernetes.io/")
	return strings.HasPrefix(key, "bunsen.dev/") || isRole && role != membership.Master && role != "control-plane"
}
