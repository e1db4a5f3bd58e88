package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// merge merges the lists of each source. CRI-O has a list for digests and one for tags, and containerd has one for
// both.
func (p *pool) merge() {
	for _, name := range slices.Sorted(maps.Keys(p.sources)) {
		s := p.sources[name]
		s.digest = p.merged(name, s.lists, func(l mirrorList) bool { return l.runtimes.CRIO && !l.tags })
		s.tag = p.merged(name, s.lists, func(l mirrorList) bool { return l.runtimes.CRIO && l.tags })
		if s.forContainerd() {
			s.hosts = p.merged(name, s.lists, func(l mirrorList) bool { return l.runtimes.Containerd })
			s.tagHosts = p.merged(name, s.lists, func(l mirrorList) bool { return l.runtimes.Containerd && l.tags })
		}
	}
}

// merged merges the lists that a function selects. It reports lists whose orders contradict each other.
func (p *pool) merged(name scope, lists []mirrorList, selects func(mirrorList) bool) []scope {
	lists = slices.DeleteFunc(slices.Clone(lists), func(l mirrorList) bool { return !selects(l) })
	if len(lists) == 0 {
		return nil
	}
	out, cycle := order(name, lists)
	if len(cycle) > 0 {
		p.reportCycle(name, cycle)
	}
	return out
}

// reportCycle reports mirrors that lists require in contradicting orders.
func (p *pool) reportCycle(name scope, cycle []edge) {
	var says []string
	last := cycle[0].at
	for _, e := range cycle {
		says = append(says, fmt.Sprintf("%s before %s at %s", e.from, e.to, e.at))
		if e.at.Compare(last) > 0 {
			last = e.at
		}
	}
	p.errorf(last, ruleOrder, "the lists for %s contradict each other: %s. Write the mirrors in one order "+
		"everywhere, or all in one list", name, strings.Join(says, ", "))
}

// edge is a requirement of a list: one mirror comes before another. The source comes after all mirrors that do not name
// it.
type edge struct {
	from, to scope
	at       origin.Pos
}

// order merges lists of one source into one list that respects the order of each, as OpenShift does. Mirrors that no
// list orders are in lexical order. It leaves out the source at the end, because a runtime tries it last anyway. If the
// lists contradict each other, it returns the requirements that do.
func order(name scope, lists []mirrorList) ([]scope, []edge) {
	g := graph{next: map[scope]map[scope]edge{}, before: map[scope]int{}}
	for _, l := range lists {
		for i := 0; i+1 < len(l.mirrors); i++ {
			g.add(edge{l.mirrors[i].name, l.mirrors[i+1].name, l.mirrors[i+1].at})
		}
		if !slices.ContainsFunc(l.mirrors, func(m mirror) bool { return m.name == name }) {
			last := l.mirrors[len(l.mirrors)-1]
			g.add(edge{last.name, name, last.at})
		}
	}
	out := g.sorted()
	if len(out) < len(g.before) {
		return nil, g.cycle(out)
	}
	if out[len(out)-1] == name {
		out = out[:len(out)-1]
	}
	return out, nil
}

// graph has the requirements of all lists.
type graph struct {
	next map[scope]map[scope]edge
	// before counts the mirrors that are required directly before each mirror. It has every mirror.
	before map[scope]int
}

func (g graph) add(e edge) {
	if g.next[e.from] == nil {
		g.next[e.from] = map[scope]edge{}
	}
	g.before[e.from] += 0
	if _, known := g.next[e.from][e.to]; !known {
		g.next[e.from][e.to] = e
		g.before[e.to]++
	}
}

// sorted returns the mirrors in an order that respects all requirements, without those that are in or after a cycle.
func (g graph) sorted() (out []scope) {
	left := maps.Clone(g.before)
	var ready []scope
	for _, m := range slices.Sorted(maps.Keys(left)) {
		if left[m] == 0 {
			ready = append(ready, m)
		}
	}
	for len(ready) > 0 {
		m := ready[0]
		ready, out = ready[1:], append(out, m)
		for _, n := range slices.Sorted(maps.Keys(g.next[m])) {
			if left[n]--; left[n] == 0 {
				ready = append(ready, n)
			}
		}
	}
	return out
}

// cycle returns the requirements of one cycle, given the mirrors that are in none.
func (g graph) cycle(sorted []scope) []edge {
	// Each mirror that is left has one before it that is left too, so the walk backwards meets a mirror twice.
	var walk []edge
	var m scope
	for _, first := range slices.Sorted(maps.Keys(g.before)) {
		if !slices.Contains(sorted, first) {
			m = first
			break
		}
	}
	for {
		for _, from := range slices.Sorted(maps.Keys(g.next)) {
			if e, ok := g.next[from][m]; ok && !slices.Contains(sorted, from) {
				walk = append(walk, e)
				m = from
				break
			}
		}
		if i := slices.IndexFunc(walk, func(e edge) bool { return e.to == m }); i >= 0 {
			out := walk[i:]
			slices.Reverse(out)
			return out
		}
	}
}
