package rollout

import (
	"slices"
	"strings"
	"time"
)

// Facts are all that a decision on a pool depends on, besides the time.
type Facts struct {
	// Pool is the pool's name.
	Pool string
	// Target is the rendered config that the pool should run; empty while nothing is rendered.
	Target string
	// Paused pools are told nothing.
	Paused bool
	// MaxUnavailable is the budget; see the function of that name. Below 1 nobody is told anything.
	MaxUnavailable int
	// Host is the node that the controller itself runs on, told last; empty if it is not known.
	Host string
	// Nodes are those whose primary pool this is. Any order gives the same Wave; by name is fastest.
	Nodes []Node
}

// Wave is what to do with a pool now.
type Wave struct {
	// Assign are the nodes to tell the target, in the order to tell them.
	Assign []Assignment
	// Wait are the nodes that do not run the target and are told nothing now, by name.
	Wait []Waiting
	// Taint and Untaint are the nodes, besides those of Assign, that get or lose the UpdateInProgress taint, by name.
	Taint, Untaint []string
	// LookAgain is when to decide again even if nothing is heard of; 0 means that there is no need to.
	LookAgain time.Duration
}

// Assignment tells one node its config.
type Assignment struct {
	// Node to write to, and the rendered Config to write there as desiredConfig.
	Node, Config string
	// Was is the config that the node was told before; empty for none.
	Was string
	// DropImage: remove the desiredImage annotation in the same write.
	DropImage bool
	// Untaint: remove the UpdateInProgress taint in the same write.
	Untaint bool
	// Recovery: the node failed Was and is out of service; this order is meant to heal it.
	Recovery bool
}

// Waiting says why a node does not run the target yet.
type Waiting struct {
	// Node that waits.
	Node string
	// Cause is the reason as a stable word.
	Cause Cause
	// Reason is the reason in words, for people.
	Reason string
}

// Cause is why a node waits, as a word for metrics and tests.
type Cause string

// Values of Cause.
const (
	// CausePaused: the pool is paused.
	CausePaused Cause = "Paused"
	// CauseBudget: as many nodes as the pool allows are out of service.
	CauseBudget Cause = "Budget"
	// CauseCordoned: the node is cordoned, by an administrator or still by us.
	CauseCordoned Cause = "Cordoned"
	// CauseNotReady: the node is not well.
	CauseNotReady Cause = "NotReady"
	// CauseHost: the controller runs on the node, which is therefore told last.
	CauseHost Cause = "HostsController"
	// CauseUpdating: the node was told and is at work.
	CauseUpdating Cause = "Updating"
	// CauseFailed: the node was told and could not.
	CauseFailed Cause = "Failed"
)

// lookAgain is how long a Wave holds while a node is at work: its words name durations, and an event can be lost.
const lookAgain = time.Minute

// Next decides what a pool's nodes are told now. It tells nobody anything while the pool is paused or has no target.
//
// A node that is told takes a place in the budget until it is done. One that failed another config and is out of
// service takes no new place, so it can be told at once; no more than MaxUnavailable nodes are at work at a time.
func Next(f Facts, now time.Time) Wave {
	var w Wave
	if f.Target == "" {
		return w
	}
	nodes := byName(f.Nodes)
	s := look(f, nodes)
	p := choose(f, s)
	for _, n := range p.nodes {
		w.Assign = append(w.Assign, Assignment{
			Node: n.Name, Config: f.Target, Was: n.Config.Desired,
			DropImage: n.Config.DesiredImage != "", Untaint: n.Tainted, Recovery: n.recoverable(f.Target),
		})
	}
	w.rest(f, s, p, describe{f, s, p, now}, nodes)
	if s.busy || len(w.Assign) > 0 {
		w.LookAgain = lookAgain
	}
	return w
}

// picked are the nodes of one wave.
type picked struct {
	nodes  []*Node
	fresh  int     // how many of them take a new place
	byName []*Node // the same in the order of names, to be walked beside all nodes
}

// choose takes from the candidates as many as the budget has room for.
func choose(f Facts, s survey) picked {
	var p picked
	if f.Paused {
		return p
	}
	p.nodes = first(s.recover, s.recoveries)
	fresh := s.fresh
	if len(fresh) > 1 {
		fresh = without(fresh, f.Host)
	}
	fresh = first(fresh, s.capacity)
	p.fresh = len(fresh)
	p.nodes = append(p.nodes, fresh...)
	p.byName = slices.Clone(p.nodes)
	slices.SortFunc(p.byName, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	return p
}

func without(nodes []*Node, name string) []*Node {
	for i, n := range nodes {
		if n.Name == name {
			return append(append([]*Node{}, nodes[:i]...), nodes[i+1:]...)
		}
	}
	return nodes
}

// rest says what happens to the nodes that are not told anything.
func (w *Wave) rest(f Facts, s survey, p picked, d describe, nodes []Node) {
	if waiting := s.behind - len(p.nodes); waiting > 0 {
		w.Wait = make([]Waiting, 0, waiting)
	}
	full, next := d.budget(), p.byName
	for i := range nodes {
		n := &nodes[i]
		if len(next) > 0 && next[0] == n {
			next = next[1:]
			continue
		}
		told := n.told(f.Target)
		switch { // a paused pool gets no new taints
		case told && n.Tainted:
			w.Untaint = append(w.Untaint, n.Name)
		case !told && !n.Tainted && !f.Paused:
			if w.Taint == nil {
				w.Taint = make([]string, 0, min(len(nodes)-i, cap(w.Wait)))
			}
			w.Taint = append(w.Taint, n.Name)
		}
		if n.UpdatedTo(f.Target) {
			continue
		}
		cause, reason := d.why(n, full)
		w.Wait = append(w.Wait, Waiting{Node: n.Name, Cause: cause, Reason: reason})
	}
}
