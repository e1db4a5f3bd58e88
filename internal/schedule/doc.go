// Package schedule says when and how fast a pool may change: it combines the RolloutPolicies that select a pool into
// one Pace, and decides whether a time is within their maintenance windows.
//
// A window opens as its schedule says, in the wall-clock time of its zone, and stays open for a duration of elapsed
// time. A schedule that names hours opens once for each time that it names. A time that the clocks skip opens at the
// moment of the jump, and one that occurs twice at its first occurrence. A schedule of every hour follows elapsed
// hours: a skipped hour does not open, and one that occurs twice opens twice.
//
// In: a pool, all RolloutPolicies, a time. Out: a Pace; open or closed, and when that changes; the problems of a
// policy; pools that wait for each other. Never: the state of nodes, a clock, any I/O but reading time zones.
package schedule
