// Package drift finds where a machine differs from its config in force, for example after a user edited a file or
// disabled a unit, and follows the cluster's DriftPolicy. The differences are the steps of the plan from the observed
// state to the config (mcd/plan). The rules of the policy name an action by the path or unit:
//
//	Degrade   report the difference; the node is Degraded until it is repaired (the default)
//	Repair    repair it by a plan like that of an update, with the actions of the disruption policy
//	Report    report it
//	Ignore    do nothing
//
// Repair becomes Degrade if the repair needs a drain or a reboot, or if the daemon has repaired the same item too
// often, because another program changes it again. A Memory counts the repairs. It is stored durably before a repair,
// so that the count survives a restart of the daemon.
//
// A Scanner scans: it watches the paths, observes the machine, lets Decide decide, stores the state and redacted
// differences below ExportDir, repairs, and reports. Decide and what it calls do no I/O. Commands on the node read what
// the last scan found.
//
// In: the config in force, a host.Host, the policies of the cluster, a Watcher, now. Out: the annotation and the event
// about drift, steps of repairs, the reason why the node is Degraded (FoundError), differences as text. Never: an
// update because of drift; contents or digests of secrets in a reason or report.
package drift
