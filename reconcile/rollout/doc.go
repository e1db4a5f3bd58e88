// Package rollout decides which nodes of a pool are assigned the pool's config next, and says why the other nodes wait.
//
// newPlan (next.go) composes the steps of a decision. Each step is a function that gets its input as parameters and
// returns its result:
//
//	evaluate       evaluate.go   what the nodes report: the record, whether too many nodes failed, and each node classified
//	measure        capacity.go   how many more nodes the budgets leave
//	currentStep    steps.go      the current step of the policy, and whether it ended
//	findBlockers   blockers.go   what blocks the pool: pauses, verdicts, windows, other pools, queries
//	assign         assign.go     the nodes that are assigned the target now
//	postponeDrains postpone.go   the drains that are postponed in favour of other nodes
//
// poolBlocks (pool_blocks.go) and Explain (explain.go) say why the pool and its nodes wait. The texts of their answers
// are in text.go. Package nodestate reads and classifies nodes, and package poolstate reads pools and policies. Package
// nodemark decides on labels, taints, and what nodes download before they are assigned the target.
//
// Everything that a later decision needs is in Decision.Record. After a crash, calling Next again continues the
// rollout.
//
// In: poolstate.Facts and now. Out: a Decision, counts, why a node waits. Never: a clock, a write to a node, or more
// unavailable nodes than each budget allows.
package rollout
