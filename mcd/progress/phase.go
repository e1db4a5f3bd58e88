package progress

import (
	"maps"
	"slices"
)

// Phase is where a daemon is with its node.
type Phase string

// The phases; package agent has a picture of them.
const (
	// Idle: the node has what is desired, or nothing is.
	Idle Phase = "Idle"
	// Planned: the steps to the desired config are known.
	Planned Phase = "Planned"
	// Draining: pods are being moved away.
	Draining Phase = "Draining"
	// Applying: steps are done.
	Applying Phase = "Applying"
	// Rebooting: the machine goes down, to the new config or back to the old one.
	Rebooting Phase = "Rebooting"
	// Checking: the new config is in place; whether the machine lives with it is being found out.
	Checking Phase = "Checking"
	// Confirming: the config is in force; the cluster is told and the node opened again.
	Confirming Phase = "Confirming"
	// Drifted: the node is not as the config in force says.
	Drifted Phase = "Drifted"
	// RolledBack: the update failed and the node is in the old config; it is tried again.
	RolledBack Phase = "RolledBack"
	// Rejected: the machine did not live with the desired config, or went down with it each time, and is in the old one; it is
	// not tried again.
	Rejected Phase = "Rejected"
	// Refused: a running node cannot take the desired config.
	Refused Phase = "Refused"
)

// Transitions says which phase may follow which. Staying is always legal.
var Transitions = map[Phase][]Phase{
	Idle:       {Planned, Confirming, Drifted, RolledBack, Rejected, Refused},
	Planned:    {Idle, Draining, Applying, Confirming, RolledBack, Rejected, Refused},
	Draining:   {Planned, Applying, Confirming, RolledBack, Rejected, Refused},
	Applying:   {Checking, Confirming, Rebooting, RolledBack, Rejected},
	Rebooting:  {Checking, Confirming, Planned, RolledBack, Rejected, Refused},
	Checking:   {Confirming, Planned, Rebooting, RolledBack, Rejected, Refused},
	Confirming: {Idle, Planned, Drifted, RolledBack, Rejected, Refused},
	Drifted:    {Confirming, Planned, RolledBack, Rejected, Refused},
	RolledBack: {Planned, Checking, Confirming, Drifted, Rejected, Refused, Idle}, // Checking: what was found could not be written down
	Rejected:   {Planned, Confirming, Drifted, RolledBack, Refused, Idle},
	Refused:    {Planned, Confirming, Drifted, RolledBack, Rejected, Idle},
}

// Legal tells whether a phase may follow another.
func Legal(from, to Phase) bool { return from == to || slices.Contains(Transitions[from], to) }

// Phases lists all of them.
func Phases() []Phase { return slices.Sorted(maps.Keys(Transitions)) }
