// Package nodestate reads what a Node reports about its updates, and classifies the nodes of a pool for a rollout.
//
// Read converts a corev1.Node to a Node. The methods of Node report whether the node is Ready, done, failing or
// unavailable (state.go), and Phase returns its phase. Classify finds the nodes that take places in the budget, and
// the candidates for an assignment. Wording describes nodes in texts.
//
// In: Nodes, records of the server, labels of custom pools, the target config, the current time. Out: Node, Phase,
// Member, Counts, texts. Never: a clock, or a decision on which node is next.
package nodestate
