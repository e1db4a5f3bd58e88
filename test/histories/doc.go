// Package histories plays random histories of a cluster, and checks after each step of each that what must hold does.
//
// A History is a Setup and a list of Steps; all chance is in the making of it (Random), so that playing it twice gives
// the same, and taking a step out of it gives another history: that is how a failing one is made small (Shrink). Play
// drives the real pure functions, which it takes from a Core: rollout.Next, the verbs of drain, status.Pool,
// schedule.PaceFor. What is around them is simulated here: an API server with versions and watches that lag (server), a
// controller process that does one write at a time and may crash after any (process), drains, daemons, machines, pods
// with their budgets, people.
//
// The Rules are sentences. At the end of each history the disturbances stop, and a last good config is pushed: then
// every healthy node has to come to it, or the pool has to say why not, and to be right about it.
//
// In: a seed. Out: the first broken rule with the story that led to it, as sentences. Never: a clock, a goroutine, any
// I/O.
package histories
