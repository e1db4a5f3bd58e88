// Package fleet reads a cluster's objects as the rollout does: pools with their nodes, the step of each node and when
// it began, which commit asked for each rendered config, and who does not report. It also finds the controllers and
// servers that run, what they report, and which configs new machines get.
//
// In: API objects and now. Out: pools, rows of nodes, rendered configs and components, the rollout's own decision for
// each pool. Never: I/O; a decision that the rollout did not make.
package fleet
