// Package drift decides what to do when a machine differs from its config in force, for example after a user edited a
// file or disabled a unit. The differences are the steps of the plan from the observed state to the config (mcd/plan).
// The rules of a DriftPolicy name an action by the path or unit:
//
//	Degrade   report the difference; the node is Degraded until it is repaired (the default)
//	Repair    repair it by a plan like that of an update, with the actions of the disruption policy
//	Report    report it
//	Ignore    do nothing
//
// The action Repair becomes Degrade if the repair needs a drain or a reboot. The action also becomes Degrade if the
// daemon has repaired the same item too often, because another program changes it again. A Memory counts the repairs.
// The caller stores the Memory durably before it acts, so that the count survives a restart of the daemon.
//
// In: Facts (config, observed State, policies, Memory) and now. Out: a Decision (results, a plan, a reason, a Memory, a
// report); masked differences as text. Never: I/O; contents or digests of secrets in a reason or report.
package drift
