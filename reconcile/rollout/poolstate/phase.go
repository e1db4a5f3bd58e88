package poolstate

// Phase is the phase of a node in its pool. Each node has one phase, so the numbers of all phases add up to the size
// of the pool.
type Phase string

// The values of Phase.
const (
	// PhaseUpdated nodes run the target and serve pods.
	PhaseUpdated Phase = "updated"
	// PhaseUnready nodes run the target, but are not Ready or are cordoned.
	PhaseUnready Phase = "unready"
	// PhaseWaiting nodes have not been assigned the target.
	PhaseWaiting Phase = "waiting"
	// PhaseDraining, PhaseRebooting and PhaseApplying nodes are at work.
	PhaseDraining  Phase = "draining"
	PhaseRebooting Phase = "rebooting"
	PhaseApplying  Phase = "applying"
	// PhaseDegraded nodes report a failure.
	PhaseDegraded Phase = "degraded"
	// PhaseBack nodes of a reverted pool run the config to which the pool returned.
	PhaseBack Phase = "back"
	// PhaseUnknown nodes do not report: their daemon has never reported or sends no heartbeat, or their kubelet has
	// stopped reporting.
	PhaseUnknown Phase = "unknown"
)

// Phases are all values of Phase, in the order in which programs show them.
var Phases = []Phase{
	PhaseUpdated, PhaseUnready, PhaseWaiting, PhaseDraining, PhaseRebooting, PhaseApplying,
	PhaseDegraded, PhaseBack, PhaseUnknown,
}

// Phase returns the phase of the node. The parameter target is the config that the pool should run. The parameter back
// is the config to which a reverted pool returned; otherwise empty. The parameter silent is true if the daemon sends no
// heartbeat.
func (n *Node) Phase(target, back string, silent bool) Phase {
	updated := target != "" && n.UpdatedTo(target)
	switch {
	case n.Degraded():
		return PhaseDegraded
	case n.State == "":
		return PhaseUnknown
	case n.Step.Rebooting: // During a reboot, neither the kubelet nor the daemon reports.
		return PhaseRebooting
	case silent, n.Health.Silence != "":
		return PhaseUnknown
	case updated && n.Ready():
		return PhaseUpdated
	case updated:
		return PhaseUnready
	case back != "" && n.UpdatedTo(back):
		return PhaseBack
	case n.Step.Draining:
		return PhaseDraining
	case target == "", n.rests(target, back):
		return PhaseWaiting
	}
	return PhaseApplying
}

// rests reports whether the node runs its desired config, and this config is neither the target nor that of a reverted
// pool.
func (n *Node) rests(target, back string) bool {
	c := n.Config
	return c.Current == c.Desired && c.Desired != target && c.Desired != back
}
