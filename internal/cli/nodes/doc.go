// Package nodes reads what nodes report about drift, runs the daemon's read-only commands in its pods, and writes drift
// into a repository.
//
// In: Nodes, the pods of daemons. Out: differences, files of a repository. Never: a change on a node or in the cluster.
package nodes
