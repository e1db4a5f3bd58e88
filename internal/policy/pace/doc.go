// Package pace combines the RolloutPolicies that select a pool: how many nodes at once, in which steps, and when a
// rollout stops.
//
// In: a pool and all RolloutPolicies. Out: a Pace; the problems of a policy; the pools that wait for each other. Never:
// the state of nodes, a clock, any I/O.
package pace
