// Package inspect says what a user reads about a cluster: the one-screen status, its live screen and its changes, the
// differences that nodes report from their configs, and why a pool, a node or a GitSource waits, with the commands that
// help. One verdict stands behind all of them.
//
// In: the pools and nodes of package fleet, and now. Out: answers, worst first, each with an outcome, a sentence and
// commands; tables, lines and blocks of text, and the same as data. Never: I/O; the contents of files; a decision that
// the rollout or the controllers did not make.
package inspect
