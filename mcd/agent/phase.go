package agent

import "slices"

// Phase is where the agent is with its node.
type Phase string

// The phases; see the package's picture.
const (
	// Idle: the node has what is desired, or nothing is.
	Idle Phase = "Idle"
	// Planned: the steps to the desired config are known.
	Planned Phase = "Planned"
	// Draining: pods are being moved away.
	Draining Phase = "Draining"
	// Applying: steps are done.
	Applying Phase = "Applying"
	// Rebooting: the machine goes down.
	Rebooting Phase = "Rebooting"
	// Confirming: the config is on disk; the cluster is told and the node opened again.
	Confirming Phase = "Confirming"
	// RolledBack: the update failed and the node is in the old config.
	RolledBack Phase = "RolledBack"
	// Refused: a running node cannot take the desired config.
	Refused Phase = "Refused"
)

// Transitions says which phase may follow which. Staying is always legal.
var Transitions = map[Phase][]Phase{
	Idle:       {Planned, Confirming, RolledBack, Refused},
	Planned:    {Idle, Draining, Applying, Confirming, RolledBack, Refused},
	Draining:   {Planned, Applying, Confirming, RolledBack, Refused},
	Applying:   {Confirming, Rebooting, RolledBack},
	Rebooting:  {Confirming, RolledBack},
	Confirming: {Idle, Planned, RolledBack, Refused},
	RolledBack: {Planned, Confirming, Refused, Idle},
	Refused:    {Planned, Confirming, RolledBack, Idle},
}

// Legal tells whether a phase may follow another.
func Legal(from, to Phase) bool { return from == to || slices.Contains(Transitions[from], to) }
