// Package reason says why a pool, a node or a GitSource waits, and which commands help.
//
// In: the pools and nodes of package fleet. Out: answers, worst first, each with an outcome, a sentence and commands.
// Never: I/O; a decision that the rollout or the controllers did not make.
package reason
