package poolstate

import (
	"cmp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Ready reports whether the kubelet is healthy and the node accepts pods.
func (n *Node) Ready() bool { return n.Health.Trouble == "" && !n.Cordon.Unschedulable }

// Done reports whether the node runs its desired config, according to its daemon.
func (n *Node) Done() bool {
	c := n.Config
	return c.Current != "" && c.Current == c.Desired && n.State == v1alpha1.StateDone
}

// layered reports whether the node has an image besides its config.
func (c Configs) layered() bool { return c.DesiredImage != "" && c.CurrentImage == c.DesiredImage }

// StrayImage reports whether the node names an image without having it besides its config. Such an image has no effect
// on a decision. The controller removes it.
func (c Configs) StrayImage() bool { return c.CurrentImage != c.DesiredImage }

// Degraded reports whether the daemon reports a failure.
func (n *Node) Degraded() bool {
	return n.State == v1alpha1.StateDegraded || n.State == v1alpha1.StateUnreconcilable
}

// StoppedReporting reports whether the kubelet stopped reporting for another reason than a reboot or a failure.
func (n *Node) StoppedReporting() bool {
	return n.Health.Silence != "" && !n.Step.Rebooting && !n.Degraded()
}

// Failing reports whether the daemon failed to bring the node to its desired config.
func (n *Node) Failing() bool { return n.Degraded() && n.Config.Current != n.Config.Desired }

// Blank reports whether the daemon is healthy and the node was never assigned a config. A node that did not boot from
// the Bunsen server is an example. A blank node runs pods and waits for its first config.
func (n *Node) Blank() bool {
	return n.Config.Current == "" && n.Config.Desired == "" && n.State == v1alpha1.StateDone
}

// Unavailable reports whether the node counts as out of service. A failing node that still runs pods is in service,
// and so is a blank node. A node whose daemon has never reported is out of service, because its state is unknown.
func (n *Node) Unavailable() bool { return !n.Ready() || (!n.Done() && !n.Failing() && !n.Blank()) }

// CountsForQuorum reports whether a quorum may need the node. It does not need a node that is not Ready, unless the
// node's daemon reports that its member of etcd runs.
func (n *Node) CountsForQuorum() bool { return !n.Health.NotReady || n.LiveMember }

// UpdatedTo reports whether the node runs the target, and has no image besides its config.
func (n *Node) UpdatedTo(target string) bool {
	return n.Done() && n.Config.Desired == target && !n.Config.layered()
}

// assigned reports whether the target is the node's desired config. A layered node needs an assignment that removes its
// image.
func (n *Node) assigned(target string) bool {
	return n.Config.Desired == target && !n.Config.layered()
}

// FailedOther reports whether the daemon recorded the failure of another config than the target. A node that was
// assigned a config still reports the failure of the earlier config until its daemon starts the update. A failure
// without a record counts for the desired config.
func (n *Node) FailedOther(target string) bool {
	return n.Failure.Config != "" && n.Failure.Config != target
}

// Problem returns the problem that the daemon reports: the problem in its recorded failure, or else the whole reason.
func (n *Node) Problem() string { return cmp.Or(n.Failure.Problem, n.Reason) }

// LacksFiles reports whether a node was assigned a config and waits for content of it, which it cannot download now.
func LacksFiles(n *Node) bool {
	return n.State == v1alpha1.StateWorking && n.Config.Current != n.Config.Desired && n.Fetched.Problem != ""
}

// LacksSecrets reports whether the node has not begun to update to its desired config and cannot: the server has
// published a newer revision of the config's secrets. The node waits for its next assignment.
func (n *Node) LacksSecrets(published map[string]string) bool {
	config, revision := v1alpha1.SplitConfigAt(n.Config.Desired)
	newer := revision != "" && published[config] != "" && published[config] != revision
	return newer && n.Config.Current != n.Config.Desired && !n.Step.Draining && !n.Step.Rebooting
}
