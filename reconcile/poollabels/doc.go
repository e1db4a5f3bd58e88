// Package poollabels publishes the label keys by which MachineConfigPools select their nodes. The package writes the
// keys to the ConfigMap machine-config-pool-labels, which is the parameter of the admission policy bunsen-node-labels
// (config/rbac/nodes-labels-admission.yaml). The policy cannot use the pools themselves: if the API server did not have
// the kind of pools, it would refuse every write to a Node.
//
// In: MachineConfigPools, the ConfigMap. Out: the ConfigMap with one entry for each pool. Never: a label of a Node, or
// a decision about who may set a label.
package poollabels
