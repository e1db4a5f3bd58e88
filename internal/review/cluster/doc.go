// Package cluster describes the changes to the objects in a repository's cluster/ directory, which are not in the
// rendered configs.
//
// In: the disruption policy, the pools and the other objects of both sides. Out: one line for each difference, with the
// meaning of the difference. Never: I/O; a value of an unknown kind in clear text; a change of a rendered config.
package cluster
