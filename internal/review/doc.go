// Package review describes what a change of a repository does to machines, before it is merged. For each pool, a review
// has the decoded differences, and the disruption that each difference causes on a running node.
//
// In: the rendered pools of both sides, a disruption policy, and facts about the nodes. Out: a Comparison, printed as
// text, Markdown or JSON. Never: a secret; any I/O; its own decision about the disruption of a change (package policy
// decides it).
package review
