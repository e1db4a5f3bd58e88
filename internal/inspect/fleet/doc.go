// Package fleet reads a cluster's objects as the rollout does: pools with their nodes, the step of each node and when
// it began, which commit requested each rendered config, and which nodes do not report.
//
// In: API objects and now. Out: pools, rows of nodes and rendered configs, the rollout's own decision for each pool.
// Never: I/O; a decision that the rollout did not make.
package fleet
