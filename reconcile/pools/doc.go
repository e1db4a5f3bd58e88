// Package pools keeps what belongs to pools as such. Every cluster has the pools master and worker, so it creates and
// restores them. The label keys of all pools go to a ConfigMap that the admission policy for Nodes reads; it cannot
// read the pools themselves, because it would refuse every write to a Node while their kind is missing. And the user's
// disruption policy is merged into the default one, for the daemons.
//
// In: MachineConfigPools, the MachineConfiguration. Out: the two pools, the ConfigMap machine-config-pool-labels, the
// status of the MachineConfiguration. Never: a write to a pool of a source, a label of a Node, a part of an invalid
// policy.
package pools
