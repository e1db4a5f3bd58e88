// Package rollout brings a pool's config to its nodes, a few at a time. Next decides which of them are assigned it now,
// and Explain says why the others wait; the Controller gathers what they need, stores the decision's record first, and
// writes the nodes.
//
// newPlan (next.go) composes the steps of a decision. Each is a function that gets its input as parameters and returns
// its result: evaluate reads what nodes report and whether too many failed; measure counts what the budgets leave;
// currentStep finds the step of the policy; findBlockers says what stops the pool; assign chooses the nodes;
// postponeDrains those whose drain gives way. MarksFor decides on labels, taints and what nodes download ahead. The
// texts are in text.go, and what the steps read and return is in package poolstate.
//
// Everything that a later decision needs is in Decision.Record. After a crash, calling Next again goes on with the
// rollout.
//
// In: MachineConfigPools, RolloutPolicies, Nodes, the answers of gates, and now. Out: a Decision, the desired configs
// of nodes, the record and the status of pools. Never: a clock in a decision; more unavailable nodes than each budget
// allows.
package rollout
