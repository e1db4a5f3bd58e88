package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Members are the nodes of one pool, sorted out by kind and kept so as they change. They remember nothing but what the nodes
// say: made anew from the same nodes they decide the same.
type Members struct {
	seats map[string]*seat
	zones map[string]*zone
	// lens is what the kinds were seen through; looked tells that they were seen at all.
	lens   lens
	looked bool
	tally  tally
	sets   [ordered]set
}

// seat is a node's place among the members.
type seat struct {
	Node
	kind kind
	zone *zone
	// host: it is told last; late: a drain of it for the target was given up then. Both are part of the order.
	host bool
	late time.Time
	// primary pool of the node, and why it has none; both the roster's.
	primary string
	err     error
}

// zone counts the pool's nodes in one topology zone, and the places that they take.
type zone struct{ nodes, places int }

// set is the seats of a kind, in the kind's order.
type set struct {
	order func(a, b *seat) int
	seats []*seat
}

func (s *set) add(x *seat) {
	i, _ := slices.BinarySearchFunc(s.seats, x, s.order)
	s.seats = slices.Insert(s.seats, i, x)
}

func (s *set) remove(x *seat) {
	if i, ok := slices.BinarySearchFunc(s.seats, x, s.order); ok {
		s.seats = slices.Delete(s.seats, i, i+1)
	}
}

func newMembers(nodes []Node) *Members {
	m := &Members{seats: make(map[string]*seat, len(nodes)), zones: map[string]*zone{}}
	seats := make([]seat, len(nodes))
	for i := range nodes {
		seats[i].Node = nodes[i]
		m.add(&seats[i])
	}
	return m
}

// Len is how many nodes there are.
func (m *Members) Len() int { return len(m.seats) }

// Nodes are copies of all nodes, by name. It walks them all and is for people.
func (m *Members) Nodes() []Node {
	nodes := make([]Node, 0, len(m.seats))
	for _, s := range m.seats {
		nodes = append(nodes, s.Node)
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// Node is one of them.
func (m *Members) Node(name string) (Node, bool) {
	if s, ok := m.seats[name]; ok {
		return s.Node, true
	}
	return Node{}, false
}

// Degraded are the nodes that report a failure, by name.
func (m *Members) Degraded() []Node {
	m.look(m.lens)
	var nodes []Node
	for _, s := range m.in(degraded) {
		nodes = append(nodes, s.Node)
	}
	return nodes
}

// in are the nodes of one ordered kind.
func (m *Members) in(k kind) []*seat { return m.sets[k.index()].seats }

// look sorts all nodes out through a lens; nothing is done where that was the last one, too.
func (m *Members) look(l lens) {
	if m.looked && m.lens.same(l) {
		return
	}
	m.lens, m.looked, m.tally = l, true, tally{}
	for i := range m.sets {
		m.sets[i] = set{order: byName, seats: m.sets[i].seats[:0]}
	}
	for _, k := range []kind{home, broken, lost, turning, ailing, fresh} {
		m.sets[k.index()].order = before
	}
	m.sets[well.index()].order = newestFirst
	for _, z := range m.zones {
		z.places = 0
	}
	for _, s := range m.seats {
		m.judge(s)
		s.kind.each(func(i int) {
			if i < ordered {
				m.sets[i].seats = append(m.sets[i].seats, s)
			}
		})
		m.account(s, 1)
	}
	for i := range m.sets {
		clear(m.sets[i].seats[len(m.sets[i].seats):cap(m.sets[i].seats)]) // nobody else keeps a node that is gone
		slices.SortFunc(m.sets[i].seats, m.sets[i].order)
	}
}

func (m *Members) judge(s *seat) {
	s.kind = m.lens.kind(&s.Node)
	s.host, s.late = s.Name == m.lens.host, time.Time{}
	if s.Postponed.For == m.lens.target {
		s.late = s.Postponed.At
	}
}

func (m *Members) account(s *seat, by int) {
	m.tally.add(s.kind, by)
	s.zone.places += by * s.kind.places()
}

// add takes a node in that is not there yet.
func (m *Members) add(s *seat) {
	m.seats[s.Name] = s
	z := m.zones[s.Zone]
	if z == nil {
		z = &zone{}
		m.zones[s.Zone] = z
	}
	z.nodes++
	s.zone, s.kind = z, 0
	if !m.looked {
		return
	}
	m.judge(s)
	m.enter(s, s.kind)
	m.account(s, 1)
}

// remove lets a node go.
func (m *Members) remove(s *seat) {
	delete(m.seats, s.Name)
	if s.zone.nodes--; s.zone.nodes == 0 {
		delete(m.zones, s.Zone)
	}
	if m.looked {
		m.leave(s, s.kind)
		m.account(s, -1)
	}
}

// change replaces a node by what it is now.
func (m *Members) change(s *seat, n Node) {
	if s.Zone != n.Zone || !m.looked {
		m.remove(s)
		s.Node = n
		m.add(s)
		return
	}
	was, is := s.kind, m.lens.kind(&n)
	keeps := was & is // what keeps its place in an order is left there
	if !sameOrder(&s.Node, &n) {
		keeps = 0
	}
	m.leave(s, was&^keeps)
	m.account(s, -1)
	s.Node = n
	m.judge(s)
	m.account(s, 1)
	m.enter(s, is&^keeps)
}

func (m *Members) enter(s *seat, k kind) {
	(k & (1<<ordered - 1)).each(func(i int) { m.sets[i].add(s) })
}

func (m *Members) leave(s *seat, k kind) {
	(k & (1<<ordered - 1)).each(func(i int) { m.sets[i].remove(s) })
}

// sameOrder tells that no order of this file tells two states of a node apart.
func sameOrder(a, b *Node) bool {
	return a.Postponed.For == b.Postponed.For && a.Postponed.At.Equal(b.Postponed.At) && a.Failing() == b.Failing() &&
		a.Created.Equal(b.Created) && a.Health.ReadySince.Equal(b.Health.ReadySince)
}

func byName(a, b *seat) int { return strings.Compare(a.Name, b.Name) }

// newestFirst has those first that became Ready last.
func newestFirst(a, b *seat) int {
	return cmp.Or(b.Health.ReadySince.Compare(a.Health.ReadySince), strings.Compare(a.Name, b.Name))
}

// before is the order in which nodes are told: those whose drain was given up last, in turn; before them the controller's
// own node; of the rest the broken ones first, since a new target may be their fix; then zone by zone, the zoneless last;
// the oldest first; by name where nothing else decides.
func before(a, b *seat) int {
	return cmp.Or(
		a.late.Compare(b.late), // the zero time comes first
		whether(a.host, b.host),
		whether(b.Failing(), a.Failing()),
		whether(a.Zone == "", b.Zone == ""),
		strings.Compare(a.Zone, b.Zone),
		a.Created.Compare(b.Created),
		strings.Compare(a.Name, b.Name),
	)
}

// whether puts those for which it is so after those for which it is not.
func whether(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// age is how long ago a time was; nothing where the clock says that it is still to come.
func age(now, t time.Time) time.Duration { return max(0, now.Sub(t)) }
