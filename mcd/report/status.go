package report

import (
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// Status is the daemon's progress in the update of its node. After a restart, the daemon determines it again: from the
// Node, the journal, the record of the config in force and the rejection.
type Status struct {
	// NodeName is the name of the Node.
	NodeName string
	// Phase of the daemon.
	Phase Phase
	// Node has the last read annotations, with the changes that the daemon is about to report.
	Node Node
	// InForce is true if the desired config is in force.
	InForce bool
	// Planned is true if the machine can apply the desired config. Drains and Reboots are true if the update needs a
	// drain or a reboot.
	Planned, Drains, Reboots bool
	// RollingBack is true while the machine returns to the config that it had before the update.
	RollingBack bool
	// Refusals say why a running node cannot apply the desired config; empty in phases other than Refused.
	Refusals []disruption.Refusal
}

// isDegraded reports whether the Node is Degraded or Unreconcilable.
func (s Status) isDegraded() bool {
	return s.Node.State == v1alpha1.StateDegraded || s.Node.State == v1alpha1.StateUnreconcilable
}

// isUpdated reports whether the node has its desired config and has reported that to the cluster.
func (s Status) isUpdated() bool {
	return (s.Phase == Idle || s.Phase == Drifted && s.InForce) && s.Node.Desired != "" &&
		s.Node.Current == s.Node.Desired
}

// isCordoned reports whether the node was cordoned for an update and not uncordoned since. The first sign of a cordon
// is the start time of the drain.
func (s Status) isCordoned() bool {
	isDrain := func(request string) bool {
		verb, _, _ := strings.Cut(request, "-")
		return verb == v1alpha1.DrainVerb
	}
	return isDrain(s.Node.LastAppliedDrain) || isDrain(s.Node.DesiredDrain) && !s.Node.Drain.Started.IsZero()
}

// isDrained reports whether the node is drained for the desired config.
func (s Status) isDrained() bool {
	r, ok := v1alpha1.ParseDrainRequest(s.Node.LastAppliedDrain)
	return ok && r.Verb == v1alpha1.DrainVerb && r.Config == v1alpha1.ConfigName(s.Node.Desired)
}

// needsReboot reports whether the update needs a reboot. The Node shows this until the update ends.
func (s Status) needsReboot() bool { return s.Reboots || s.Node.PostAction != "" }

// hasFailed reports whether the update did not start, was rolled back, or is about to be rolled back.
func (s Status) hasFailed() bool {
	return s.RollingBack || slices.Contains([]Phase{Blocked, RolledBack, Rejected, Refused}, s.Phase)
}

// isPlanned reports whether the daemon has planned the update. The daemon has planned every config that it rejected.
func (s Status) isPlanned() bool { return s.Planned || s.Phase == Rejected || s.step() > preparing }

// step is the step of an update that the daemon has reached.
type step int

// The steps of an update, in order.
const (
	// noStep: no update is under way, or it was rolled back.
	noStep step = iota
	preparing
	draining
	applying
	rebooting
	checking
	confirming
)

// steps has the phases of an update.
var steps = map[Phase]step{
	Planned: preparing, Draining: draining, Applying: applying, Rebooting: rebooting, Checking: checking,
	Confirming: confirming,
}

// step returns the step that the update has reached; noStep while the machine rolls back.
func (s Status) step() step {
	if s.RollingBack {
		return noStep
	}
	return steps[s.Phase]
}
