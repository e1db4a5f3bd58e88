// Package cluster reads the objects of a repository's cluster/ directory: MachineConfigPools, the MachineConfiguration,
// DriftPolicies and RolloutPolicies.
//
// In: a rooted file system and the pools that have documents. Out: objects to apply, or findings with their lines.
// Never: fields that users or programs set on the cluster, such as status and spec.paused; an object that the API
// server would refuse.
package cluster
