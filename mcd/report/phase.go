package report

import (
	"cmp"
	"fmt"
	"slices"
)

// Phase is the daemon's phase in the update of its node.
type Phase string

// The phases; package agent has a diagram of them.
const (
	// Idle: the node has the desired config, or none is desired.
	Idle Phase = "Idle"
	// Planned: the steps to the desired config are known.
	Planned Phase = "Planned"
	// Draining: the controller drains the node.
	Draining Phase = "Draining"
	// Applying: the daemon applies the steps, or could not roll all of them back and retries that.
	Applying Phase = "Applying"
	// Rebooting: the machine reboots into the new config, or to roll back.
	Rebooting Phase = "Rebooting"
	// Checking: the steps are done, and the health check runs.
	Checking Phase = "Checking"
	// Confirming: the config is in force; the daemon reports it and requests the uncordon.
	Confirming Phase = "Confirming"
	// Drifted: the machine differs from its config in force.
	Drifted Phase = "Drifted"
	// Blocked: the update could not begin, or was stopped before its first change. Nothing has changed; the daemon
	// retries.
	Blocked Phase = "Blocked"
	// RolledBack: the update failed and the node is in the old config; the daemon retries.
	RolledBack Phase = "RolledBack"
	// Rejected: the machine failed the health check with the desired config, or went down during each attempt. A node
	// in the phase Rejected is in the old config, and the daemon does not retry.
	Rejected Phase = "Rejected"
	// Refused: a running node cannot apply the desired config.
	Refused Phase = "Refused"
)

// Transitions has the phases that may follow each phase. A phase may always stay.
var Transitions = map[Phase][]Phase{
	Idle:     {Planned, Confirming, Drifted, Blocked, Rejected, Refused},
	Planned:  {Idle, Draining, Applying, Confirming, Blocked, Rejected, Refused},
	Draining: {Planned, Applying, Confirming, Blocked, Rejected, Refused},
	Applying: {Checking, Confirming, Planned, Rebooting, Blocked, RolledBack, Rejected, Refused},
	// Applying: the rollback failed. Rebooting follows Checking for a rollback.
	Rebooting:  {Applying, Checking, Confirming, Planned, Blocked, RolledBack, Rejected, Refused},
	Checking:   {Applying, Confirming, Planned, Rebooting, Blocked, RolledBack, Rejected, Refused},
	Confirming: {Idle, Planned, Drifted, Blocked, Rejected, Refused},
	Drifted:    {Confirming, Planned, Blocked, Rejected, Refused},
	Blocked:    {Idle, Planned, Confirming, Drifted, Rejected, Refused},
	RolledBack: {Planned, Confirming, Drifted, Blocked, Rejected, Refused, Idle},
	Rejected:   {Planned, Confirming, Drifted, Blocked, Refused, Idle},
	Refused:    {Planned, Confirming, Drifted, Blocked, Rejected, Idle},
}

// Progress has the present phase. Only the method Enter changes the phase. The zero value stands for a daemon that has
// just started. Any phase may follow it, because an earlier process may have left an update in any phase.
type Progress struct{ phase Phase }

// Phase returns the present phase; Idle before the first phase.
func (p *Progress) Phase() Phase { return cmp.Or(p.phase, Idle) }

// Enter changes the phase. The error says that Transitions does not have this change, which is a bug. The phase changes
// even then, because an update must not stop because of such a bug.
func (p *Progress) Enter(next Phase) error {
	from := p.phase
	p.phase = next
	if from != "" && from != next && !slices.Contains(Transitions[from], next) {
		return fmt.Errorf("illegal transition from phase %s to %s", from, next)
	}
	return nil
}
