package rollout

import (
	"maps"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Roster is the memory of all nodes, pool by pool, kept up as they change, so that a decision does not walk them all. It
// remembers nothing that the nodes do not say, but for SetGate. It is not safe for use by several goroutines at once.
type Roster struct {
	rules []rule
	pools Pools
	seats map[string]*seat
	of    map[string]*Members
}

// rule is what of a pool decides about its members.
type rule struct{ pool, selector string }

// NewRoster makes a roster without pools and nodes.
func NewRoster() *Roster {
	return &Roster{seats: map[string]*seat{}, of: map[string]*Members{}}
}

// SetPools gives the roster all pools of the cluster. It tells whether a node changed its pool by that. It costs little where
// no selector changed.
func (r *Roster) SetPools(pools []*mcfgv1.MachineConfigPool) bool {
	rules := make([]rule, 0, len(pools))
	for _, p := range pools {
		rules = append(rules, rule{p.Name, metav1.FormatLabelSelector(p.Spec.NodeSelector)})
	}
	if slices.Equal(rules, r.rules) {
		return false
	}
	r.rules, r.pools = rules, NewPools(pools)
	moved := false
	for _, s := range r.seats {
		was := s.primary
		r.seat(s, s.Node)
		moved = moved || was != s.primary
	}
	return moved
}

// Put takes a node as it is now. was and is are its primary pool before and after, empty for none; changed tells whether
// anything that a decision looks at did, which the heartbeat of a kubelet does not.
func (r *Roster) Put(node *corev1.Node) (was, is string, changed bool) {
	n := ReadNode(node)
	s := r.seats[n.Name]
	if s == nil {
		s = &seat{}
		r.seats[n.Name] = s
		r.seat(s, n)
		return "", s.primary, true
	}
	n.Gate, was = s.Gate, s.primary
	switch {
	case !maps.Equal(n.Labels, s.Labels):
		r.seat(s, n)
	case n.same(&s.Node):
		s.Labels = n.Labels // so that the object before can be forgotten
		return was, was, false
	case was == "":
		s.Node = n
	default:
		r.of[was].change(s, n)
	}
	return was, s.primary, true
}

// seat gives a node its place in the pool that it belongs to now.
func (r *Roster) seat(s *seat, n Node) {
	if s.primary != "" {
		r.of[s.primary].remove(s)
	}
	s.Node = n
	s.primary, _, s.err = r.pools.For(n)
	if s.primary != "" {
		r.Pool(s.primary).add(s)
	}
}

// SetGate says why a health gate of a node does not hold yet; empty: it holds. It tells the node's pool.
func (r *Roster) SetGate(name, why string) (pool string, changed bool) {
	s := r.seats[name]
	if s == nil || s.Gate == why {
		return "", false
	}
	n := s.Node
	n.Gate = why
	if s.primary == "" {
		s.Node = n
	} else {
		r.of[s.primary].change(s, n)
	}
	return s.primary, true
}

// Delete forgets a node, and tells its primary pool.
func (r *Roster) Delete(name string) (was string) {
	s := r.seats[name]
	if s == nil {
		return ""
	}
	delete(r.seats, name)
	if s.primary != "" {
		r.of[s.primary].remove(s)
	}
	return s.primary
}

// Conflict says why nobody may touch a node, as where it is in two custom pools; nil: nothing is in the way.
func (r *Roster) Conflict(name string) error {
	if s := r.seats[name]; s != nil {
		return s.err
	}
	return nil
}

// Pool has the nodes whose primary pool has that name, now and as they change; never nil.
func (r *Roster) Pool(name string) *Members {
	m := r.of[name]
	if m == nil {
		m = newMembers(nil)
		r.of[name] = m
	}
	return m
}

// same tells that a decision sees no difference between two states of a node with the same labels.
func (n *Node) same(o *Node) bool {
	return n.Config == o.Config && n.State == o.State && n.Reason == o.Reason && n.Gate == o.Gate && n.Cordon == o.Cordon &&
		n.Zone == o.Zone && n.Created.Equal(o.Created) && n.Health.same(o.Health) && n.Step.same(o.Step) && n.Marks.same(o.Marks)
}

func (h Health) same(o Health) bool {
	return h.Trouble == o.Trouble && h.Silence == o.Silence && h.Since.Equal(o.Since) && h.ReadySince.Equal(o.ReadySince)
}

func (s Step) same(o Step) bool {
	return s.Draining == o.Draining && s.Uncordoning == o.Uncordoning && s.Rebooting == o.Rebooting &&
		s.DrainStatus == o.DrainStatus && s.DrainStarted.Equal(o.DrainStarted) && s.HeldUpSince.Equal(o.HeldUpSince)
}

func (m Marks) same(o Marks) bool {
	return m.Tainted == o.Tainted && m.Booted == o.Booted && m.Checked == o.Checked && m.Attested == o.Attested && m.Postponed.For == o.Postponed.For && m.Postponed.At.Equal(o.Postponed.At) &&
		m.Failure.Config == o.Failure.Config && m.Failure.Cause == o.Failure.Cause && m.Failure.Retry.Equal(o.Failure.Retry) &&
		m.Drains.same(o.Drains)
}
