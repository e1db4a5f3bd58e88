// Package poolstate is the state of a pool as rollouts, statuses and screens see it: its nodes, its settings, how other
// pools limit it, and what was decided about it.
//
// ReadNode turns a corev1.Node into a Node, whose methods say whether it is ready, done, failing or unavailable.
// Classify finds the nodes that take places in the budget and those that may be assigned a config. Read returns the
// Facts of a pool, and Others.Surround adds the pools that come first, shared budgets, and the quorum of masters and
// arbiter. Decision is what package rollout decides, and Wording describes nodes in texts.
//
// In: Nodes, MachineConfigPools, RolloutPolicies, records of the server, the target, the time. Out: Node, Member,
// Counts, Facts, Decision, texts, with every error as a text. Never: a clock, a read of the cluster, a decision on
// which node is next.
package poolstate
