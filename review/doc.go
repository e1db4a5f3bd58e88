// Package review says what a change of a repository does to machines, before it is merged: per pool the decoded
// differences and what each one costs a running node.
//
// In: what each pool renders to on both sides, a disruption policy, and what is known of the nodes. Out: a Comparison,
// printed as text, Markdown or JSON. Never: a secret; any I/O; a judgement of its own on what a change costs (package
// policy has it).
package review
