// Package drift decides what to do when a machine is no longer as its config in force has it: because somebody edited a
// file, a package's script ran, a unit was disabled. What differs is the plan from what was observed to what the config
// wants (mcd/plan); there is no second comparer. A policy says by the name of each thing what to do about it:
//
//	Degrade   report it; the node is Degraded until it is right again (what no rule covers)
//	Repair    put it right by a plan like every update's, with the actions that the node disruption policy names
//	Report    report it
//	Ignore    nothing
//
// A repair becomes Degrade where it would take a drain or a reboot, and where the same thing had to be repaired too often:
// then somebody else writes it, and two of them would go on for ever. How often is remembered in a Memory, which the caller
// keeps durable before it acts, so that a daemon that crashes and starts again does not begin to count anew.
//
// In: Facts: config, observed State, policies, Memory; now. Out: a Decision: verdicts, a plan, a reason, a Memory, a report;
// redacted differences as text. Never: any I/O; contents or digests of secrets in a reason or report.
package drift
