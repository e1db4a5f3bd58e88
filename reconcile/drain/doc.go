// Package drain decides how a node is drained. Parse reads the request. Decide decides which pods stay, and what the
// controller does with each of the other pods. Queues orders the evictions. Cordon, Uncordon and Tidy decide about the
// cordon. Acknowledge decides when a request is done.
//
// A drain respects each pod's disruption budget, unless the pool's RolloutPolicy allows deletions. Without such a
// policy, a drain waits for ever and reports the cause, with a warning after a while. The report on the Node has all
// data that must survive a restart. Data in the controller's memory only saves requests.
//
// In: a node's request, cordon and last report, its pods with the server's answers to the last evictions, the pool's
// pace, and the current time. Out: a verdict per pod, a line of text, a report, the time of the next round, changes to
// a node as values. Never: a clock, an eviction, or the removal of an administrator's cordon.
package drain
