package poolstate

import "github.com/bunsen-os/bunsen/api/v1alpha1"

// Phase is that of a node in its pool. Each node has one, so their numbers add up to the size of the pool.
type Phase string

// The values of Phase.
const (
	// runs the target and serves pods
	PhaseUpdated Phase = "updated"
	// runs the target, but is not Ready or is cordoned
	PhaseUnready Phase = "unready"
	// not assigned the target yet
	PhaseWaiting Phase = "waiting"
	// at work
	PhaseDraining  Phase = "draining"
	PhaseRebooting Phase = "rebooting"
	PhaseApplying  Phase = "applying"
	// reports a failure
	PhaseDegraded Phase = "degraded"
	// in a reverted pool, runs the config to which it returned
	PhaseBack Phase = "back"
	// does not report: the daemon has never reported or sends no heartbeat, or the kubelet has stopped
	PhaseUnknown Phase = "unknown"
)

// Phases are all values of Phase, in the order in which programs show them.
var Phases = []Phase{
	PhaseUpdated, PhaseUnready, PhaseWaiting, PhaseDraining, PhaseRebooting, PhaseApplying,
	PhaseDegraded, PhaseBack, PhaseUnknown,
}

// Phase returns the phase of the node. target is what the pool should run, and back where a reverted pool returned to,
// or
// zero. silent: the daemon sends no heartbeat.
func (n *Node) Phase(target, back v1alpha1.ConfigVersion, silent bool) Phase {
	updated := !target.IsZero() && n.UpdatedTo(target)
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
	case !back.IsZero() && n.UpdatedTo(back):
		return PhaseBack
	case n.Step.Draining:
		return PhaseDraining
	case target.IsZero(), n.rests(target, back):
		return PhaseWaiting
	}
	return PhaseApplying
}

// rests reports whether the node runs its desired config, and that is neither the target nor that of a reverted pool.
func (n *Node) rests(target, back v1alpha1.ConfigVersion) bool {
	c := n.Config
	return c.Current == c.Desired && c.Desired != target && c.Desired != back
}
