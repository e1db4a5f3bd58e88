// Package poolstate reads everything on which a decision about a pool depends: its MachineConfigPool, RolloutPolicies,
// and the other pools.
//
// Read returns the Facts of one pool. Others.Surround adds how other pools limit this pool: pools that are updated
// first, shared budgets, and the quorum of the masters with the arbiter.
//
// In: MachineConfigPools, RolloutPolicies, counts of nodes. Out: Facts, with every error as a text. Never: a clock, or
// a read of the cluster.
package poolstate
