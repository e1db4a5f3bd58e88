// Package report has the data that the daemon and the cluster exchange about one node: the Node's annotations as one
// value, the reasons of events, the phases of an update, and the MachineConfigNode that follows from them.
//
// In: annotations; a Status, which the daemon determines again after a restart; the present status of the object; the
// current time. Out: Node, EventReason, the spec and the status of a MachineConfigNode. Never: a cluster, a clock, a
// decision, the contents of a file.
package report
