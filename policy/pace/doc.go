// Package pace says how carefully a pool is rolled out: what the RolloutPolicies that select it come to.
//
// In: a pool and all RolloutPolicies. Out: a Pace; the problems of a policy; the pools that wait for each other. Never: what nodes do,
// a clock, any I/O.
package pace
