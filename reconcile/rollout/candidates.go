package rollout

import (
	"cmp"
	"slices"
	"strings"
)

// Candidates are the nodes of a pool that could be told the target now, by name, and how many of them may be.
type Candidates struct {
	// Recover are out of service already, because they failed another config: telling them costs the budget nothing.
	Recover []string
	// Fresh are in service; each one told takes a place.
	Fresh []string
	// Recoveries and Capacity are how many of Recover and of Fresh may be told now.
	Recoveries, Capacity int
}

// FindCandidates judges the nodes without regard to Facts.Paused.
func FindCandidates(f Facts) Candidates {
	s := look(f, byName(f.Nodes))
	c := Candidates{Recoveries: s.recoveries, Capacity: s.capacity}
	for _, n := range s.recover {
		c.Recover = append(c.Recover, n.Name)
	}
	for _, n := range s.fresh {
		c.Fresh = append(c.Fresh, n.Name)
	}
	return c
}

// survey is a pool seen in one pass.
type survey struct {
	// used are the places taken in the budget; occupants the first few nodes that take them, and occupied their number.
	used, occupied int
	occupants      []*Node
	// recover and fresh are the candidates, recoveries and capacity how many of them may be told.
	recover, fresh       []*Node
	recoveries, capacity int
	// busy tells that a node is between being told and being done.
	busy bool
	// behind is how many nodes do not run the target.
	behind int
}

// named is how many occupants of a budget are named in a message.
const named = 3

// look counts who takes a place in the budget and who could be told.
func look(f Facts, nodes []Node) survey {
	var s survey
	atWork := 0
	for i := range nodes {
		n := &nodes[i]
		unavailable, told := n.Unavailable(), n.told(f.Target)
		failingThis := n.Config.Desired == f.Target && n.Failing()
		if unavailable {
			s.used++
		}
		if failingThis { // takes a place of its own: the target is bad news until it has worked there
			s.used++
		}
		if unavailable || failingThis {
			s.occupied++
			if len(s.occupants) < named {
				s.occupants = append(s.occupants, n)
			}
		}
		recoverable := n.recoverable(f.Target)
		switch {
		case recoverable:
			s.recover = append(s.recover, n)
		case !told && n.Ready():
			if s.fresh == nil {
				s.fresh = make([]*Node, 0, len(nodes)-i)
			}
			s.fresh = append(s.fresh, n)
		}
		if n.Config.Current != n.Config.Desired && (failingThis || !n.Failing()) {
			atWork++
		}
		if !n.UpdatedTo(f.Target) {
			s.behind++
		}
		s.busy = s.busy || n.Config.Current != n.Config.Desired
	}
	budget := max(0, f.MaxUnavailable) // before the differences: below the least number there is comes the greatest
	s.capacity = max(0, budget-s.used)
	s.recoveries = max(0, budget-atWork)
	if s.capacity == 0 {
		s.fresh = nil
	}
	return s
}

// before is the order in which nodes are told: broken ones first, since a new target may be their fix; then zone by
// zone, the zoneless last; the oldest first; by name where nothing else decides.
func before(a, b *Node) int {
	if fa, fb := a.Failing(), b.Failing(); fa != fb {
		if fa {
			return -1
		}
		return 1
	}
	if a.Zone != b.Zone {
		if a.Zone == "" || b.Zone == "" {
			return -strings.Compare(a.Zone, b.Zone)
		}
		return strings.Compare(a.Zone, b.Zone)
	}
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
}

// first picks the k nodes that come first, in order, without sorting the rest: best is a heap with the last one on top.
func first(nodes []*Node, k int) []*Node {
	k = min(k, len(nodes))
	if k <= 0 {
		return nil
	}
	best := slices.Clone(nodes[:k])
	for i := k/2 - 1; i >= 0; i-- {
		sink(best, i)
	}
	for _, n := range nodes[k:] {
		if before(n, best[0]) < 0 {
			best[0] = n
			sink(best, 0)
		}
	}
	slices.SortFunc(best, before)
	return best
}

// sink moves the node at i down until no later node lies below it.
func sink(heap []*Node, i int) {
	for {
		last := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(heap) && before(heap[child], heap[last]) > 0 {
				last = child
			}
		}
		if last == i {
			return
		}
		heap[i], heap[last] = heap[last], heap[i]
		i = last
	}
}

// byName returns the nodes in order of their names; a list that has it already, as a caller's should, is not copied.
func byName(nodes []Node) []Node {
	if sorted(nodes) {
		return nodes
	}
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

func sorted(nodes []Node) bool {
	for i := 1; i < len(nodes); i++ {
		if nodes[i].Name < nodes[i-1].Name {
			return false
		}
	}
	return true
}
