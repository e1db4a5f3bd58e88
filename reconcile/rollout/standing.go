package rollout

// Standing is what a node counts as among the nodes of its pool. Each node counts once, so the numbers add up to the pool's.
type Standing string

// Values of Standing.
const (
	// StandingUpdated nodes run the target and serve pods.
	StandingUpdated Standing = "updated"
	// StandingUnready nodes run the target, and are not Ready or are cordoned.
	StandingUnready Standing = "unready"
	// StandingWaiting nodes have not been assigned the target.
	StandingWaiting Standing = "waiting"
	// StandingDraining, StandingRebooting and StandingApplying nodes are at work.
	StandingDraining  Standing = "draining"
	StandingRebooting Standing = "rebooting"
	StandingApplying  Standing = "applying"
	// StandingDegraded nodes report a failure.
	StandingDegraded Standing = "degraded"
	// StandingBack nodes of a reverted pool run the config to which it went back.
	StandingBack Standing = "back"
	// StandingUnknown nodes do not report: no daemon ever did, their kubelet stopped, or their daemon is silent.
	StandingUnknown Standing = "unknown"
)

// Standings are all values, in the order in which they are shown.
var Standings = []Standing{
	StandingUpdated, StandingUnready, StandingWaiting, StandingDraining, StandingRebooting, StandingApplying,
	StandingDegraded, StandingBack, StandingUnknown,
}

// Standing is what the node counts as. Target is what the pool should run; back is the config to which it went back, empty
// where it did not. Silent tells that the daemon's heartbeat is missing.
func (n *Node) Standing(target, back string, silent bool) Standing {
	switch {
	case n.Degraded():
		return StandingDegraded
	case n.State == "":
		return StandingUnknown
	case n.Step.Rebooting: // the kubelet and the daemon are away for that
		return StandingRebooting
	case silent, n.Health.Silence != "":
		return StandingUnknown
	case target != "" && n.UpdatedTo(target) && n.Ready():
		return StandingUpdated
	case target != "" && n.UpdatedTo(target):
		return StandingUnready
	case back != "" && n.UpdatedTo(back):
		return StandingBack
	case n.Step.Draining:
		return StandingDraining
	case target == "", n.Config.Desired != target && n.Config.Current == n.Config.Desired && n.Config.Desired != back:
		return StandingWaiting
	}
	return StandingApplying
}
