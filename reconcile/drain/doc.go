// Package drain drains nodes at the request of their daemons. Parse reads a request. Decide says for each pod whether
// it is evicted, waits or stays; Queues orders the evictions; Cordon, Uncordon and Tidy decide about the cordon, and
// Acknowledge when a request is done. The Controller asks them in each round, and evicts.
//
// A drain respects each pod's disruption budget, unless the pool's RolloutPolicy allows deletions. Without such a
// policy it waits for ever and reports the cause, with a warning after a while. All that must survive a restart stands
// in the report on the Node; what is in memory only saves requests.
//
// In: a node's request, cordon and last report, its pods with the server's answers to the last evictions, the pool's
// pace, and the time. Out: a verdict for each pod, a line of text, a report, the time of the next round; evictions and
// cordons. Never: the removal of an administrator's cordon.
package drain
