package rollout

import (
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Ready: the kubelet is well and pods may be scheduled there.
func (n *Node) Ready() bool { return n.Health.Trouble == "" && !n.Cordon.Unschedulable }

// Done: the node runs what it was told to run, and its daemon says so. On layered nodes the images must agree too.
func (n *Node) Done() bool {
	c := n.Config
	layered := c.CurrentImage != "" || c.DesiredImage != ""
	return c.Current != "" && c.Current == c.Desired && n.State == v1alpha1.StateDone && (!layered || c.CurrentImage == c.DesiredImage)
}

// Degraded: the daemon reports a failure.
func (n *Node) Degraded() bool {
	return n.State == v1alpha1.StateDegraded || n.State == v1alpha1.StateUnreconcilable
}

// Failing: the daemon could not bring the node to the config that it was told to run.
func (n *Node) Failing() bool { return n.Degraded() && n.Config.Current != n.Config.Desired }

// Blank: the daemon is there and well, and the node was never told a config: it runs what it was installed with. So it
// is when a daemon comes to a node that did not boot from our server; it serves pods, and waits for its first config.
func (n *Node) Blank() bool { return n.Config == (Configs{}) && n.State == v1alpha1.StateDone }

// Unavailable: the node takes a place in the pool's budget. A failing node that still serves pods does not, nor does a
// blank one; one from which no daemon has reported does, for nobody knows what it is doing.
func (n *Node) Unavailable() bool { return !n.Ready() || (!n.Done() && !n.Failing() && !n.Blank()) }

// UpdatedTo tells that the node runs the target, and nothing else beside it.
func (n *Node) UpdatedTo(target string) bool {
	return n.Done() && n.Config.Desired == target && n.Config.DesiredImage == ""
}

// told tells that the node needs no new order to come to the target. A layered node has to be told to drop its image.
func (n *Node) told(target string) bool {
	return n.Config.Desired == target && n.Config.DesiredImage == ""
}

// blames tells that the daemon's complaint is about another rendered config than the target. A node that is told a config
// while it complains of the one before goes on complaining for a moment.
func (n *Node) blames(target string) bool {
	return strings.Contains(n.Reason, "rendered-") && !strings.Contains(n.Reason, target)
}

// Counts are the numbers of a pool's status.
type Counts struct {
	// Machines is the size of the pool.
	Machines int
	// Updated nodes run the target; Ready ones of these also serve pods.
	Updated, Ready int
	// Unavailable nodes are out of service or at work.
	Unavailable int
	// Places are taken in the budget: by the unavailable nodes, once more by those that failed the target, and by updated
	// ones that a health gate still holds.
	Places int
	// Degraded nodes report a failure.
	Degraded int
}

// Count counts the nodes of a pool with regard to its target and to no time: a gate that asks how long a node is Ready
// holds none here.
func Count(f Facts) Counts {
	l, t := lens{target: f.Target, goal: f.Target}, tally{}
	for i := range f.Nodes {
		t.add(l.kind(&f.Nodes[i]), 1)
	}
	return t.counts(len(f.Nodes), 0)
}

// Candidates are the nodes of a pool that could be told the target now, by name, without regard to Facts.Paused.
type Candidates struct {
	// Free are out of service already, or run the target: telling them costs the budget nothing.
	Free []string
	// Fresh are in service; each one told takes a place. Capacity is how many may be told now.
	Fresh    []string
	Capacity int
}

// FindCandidates finds all of them by the plain semantics of maxUnavailable.
func FindCandidates(f Facts) Candidates {
	d := decide(newMembers(f.Nodes), f, time.Time{})
	c := Candidates{Capacity: d.budget.room}
	for _, k := range []kind{home, broken, lost, turning, ailing} {
		for _, s := range d.m.in(k) {
			if k == turning && s.kind&lost != 0 {
				continue // it is there already
			}
			c.Free = append(c.Free, s.Name)
		}
	}
	if c.Capacity > 0 {
		for _, s := range d.m.in(fresh) {
			c.Fresh = append(c.Fresh, s.Name)
		}
	}
	slices.Sort(c.Free)
	slices.Sort(c.Fresh)
	return c
}

// Converged: every node runs the target and serves pods.
func (c Counts) Converged() bool {
	return c.Updated == c.Machines && c.Ready == c.Machines && c.Unavailable == 0
}
