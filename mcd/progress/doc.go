// Package progress says where a daemon is with its node: in phases, and as the MachineConfigNode that people look at.
//
// In: a Place, which a daemon finds again after a restart; the status that is there; now. Out: the object's spec and status,
// whose times of transition move only with a condition's status. Never: a cluster, a clock, a decision, the contents of a file.
package progress
