// Package drain decides how a node is emptied: what was asked for (Parse), who is evicted, skipped or waited for (Decide),
// who may be cordoned and uncordoned (Cordon, Uncordon, Tidy), and when a request is done (Acknowledge).
//
// A pod's disruption budget is never gone around: a drain waits for ever, and says ever louder what for.
//
// In: a node's request and cordon, its pods with what kubectl's filters said and what the server answered to the last
// eviction, and now. Out: a verdict per pod, a line of text, when to look again, changes to a node as values.
// Never: reads a clock, evicts, or lifts an administrator's cordon.
package drain
