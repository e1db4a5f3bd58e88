// Package drain decides how a node is drained. Parse reads the request. Decide decides which pods stay, and what to do
// with each other pod. Queues orders the evictions. Cordon, Uncordon and Tidy decide about the cordon. Acknowledge
// decides when a request is done.
//
// A drain respects each pod's disruption budget, unless the pool's RolloutPolicy allows deletions. Otherwise it waits
// for ever and reports the cause, with a warning after a while. The report on the Node has all data that must survive
// a restart; memory only saves requests.
//
// In: a node's request, cordon and last report, its pods with the server's answers to the last evictions, the pool's
// pace, and the current time. Out: a verdict per pod, a line of text, a report, the time of the next round, changes to
// a node as values.
// Never: reads a clock, evicts, or removes an administrator's cordon.
package drain
