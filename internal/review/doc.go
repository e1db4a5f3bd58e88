// Package review says what a change of a repository does to machines, before it is merged. For each pool it has the
// decoded differences, as unified diffs and attributes with a digest in place of each secret; what each of them costs a
// running node; and what nodes have to download. Beside the pools stand the changes of cluster/, which no rendered
// config has, and of who can read the secrets.
//
// In: the rendered pools of both sides, the objects and files of both, a disruption policy, and facts about the nodes.
// Out: a Comparison, printed by package report as text, Markdown or JSON. Never: a secret; any I/O; its own decision
// about what a change costs, which package disruption makes.
package review
