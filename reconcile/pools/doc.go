// Package pools is the controller of the disruption policy: it merges the user's policy into the default policy,
// for the daemons.
//
// In: the MachineConfiguration. Out: its status. Never: the use of a part of an invalid policy.
//
// The part poollabels publishes the label keys by which MachineConfigPools select their nodes. The package writes the
// keys to the ConfigMap machine-config-pool-labels, which is the parameter of the admission policy bunsen-node-labels
// (config/rbac/nodes-labels-admission.yaml). The policy cannot use the pools themselves: if the API server did not have
// the kind of pools, it would refuse every write to a Node.
//
// In: MachineConfigPools, the ConfigMap. Out: the ConfigMap with one entry for each pool. Never: a label of a Node, or
// a decision about who may set a label.
//
// The part standardpools creates and restores the pools that every cluster has: master and worker.
//
// In: MachineConfigPools. Out: the selectors of the two pools, unless a user or a source sets them. Never: a write to
// a pool of a source.
package pools
