// Package distribution is the table of the distributions of Kubernetes and of the operating systems on which Bunsen's
// daemon runs.
//
// In: nothing. Out: units, paths and tools of each distribution. Never: a choice of a config or of a user; detection of
// a machine.
package distribution
