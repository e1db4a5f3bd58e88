package rollout

import "github.com/bunsen-os/bunsen/api/v1alpha1"

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

// recoverable tells that the node failed another config than the target and is out of service through nobody's doing
// but ours: a new order may heal it, and takes no node out of service that is in service now. An administrator's
// cordon is respected even then.
func (n *Node) recoverable(target string) bool {
	return !n.told(target) && n.Failing() && n.Unavailable() && !n.Cordon.ByAdministrator()
}

// Counts are the numbers of a pool's status.
type Counts struct {
	// Machines is the size of the pool.
	Machines int
	// Updated nodes run the target; Ready ones of these also serve pods.
	Updated, Ready int
	// Unavailable nodes take a place in the budget.
	Unavailable int
	// Degraded nodes report a failure.
	Degraded int
}

// Count counts the nodes of a pool.
func Count(f Facts) Counts {
	c := Counts{Machines: len(f.Nodes)}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.UpdatedTo(f.Target) {
			c.Updated++
			if n.Ready() {
				c.Ready++
			}
		}
		if n.Unavailable() {
			c.Unavailable++
		}
		if n.Degraded() {
			c.Degraded++
		}
	}
	return c
}

// Converged: every node runs the target and serves pods.
func (c Counts) Converged() bool {
	return c.Updated == c.Machines && c.Ready == c.Machines && c.Unavailable == 0
}
