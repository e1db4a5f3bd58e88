// Package drain decides how a node is emptied: what was asked for (Parse), which pods stay and what becomes of each other
// one (Decide), in what order to ask for evictions (Queues), who may be cordoned and uncordoned (Cordon, Uncordon, Tidy),
// and when a request is done (Acknowledge).
//
// Nothing goes around a pod's disruption budget but where the pool's RolloutPolicy says so: a drain waits for ever, and
// says ever louder what for. What must survive a restart is in the report on the Node; memory only saves requests.
//
// In: a node's request, cordon and last report, its pods with what the server answered to the last eviction, the pool's
// pace, and now. Out: a verdict per pod, a line of text, a report, when to look again, changes to a node as values.
// Never: reads a clock, evicts, or lifts an administrator's cordon.
package drain
