// Package schedule combines the RolloutPolicies that select a pool: how many nodes at once, in which steps, and when a
// rollout stops.
//
// In: a pool and all RolloutPolicies. Out: a Pace; the problems of a policy; the pools that wait for each other. Never:
// the state of nodes, a clock, any I/O.
//
// The part window decides whether a time is within a maintenance window, and when that changes.
//
// A window opens as its schedule says, in the wall-clock time of its zone, and stays open for a duration of elapsed
// time. A schedule that names hours opens once for each time that it names. A time that the clocks skip opens at the
// moment of the jump. A time that occurs twice opens at its first occurrence. A schedule of every hour follows elapsed
// hours: an hour that the clocks skip does not open, and an hour that occurs twice opens twice.
//
// In: windows and a time. Out: open or closed, when that changes, and which window decides. Never: a clock, any I/O but
// the reading of time zones.
package schedule
