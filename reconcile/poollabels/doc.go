// Package poollabels publishes the label keys by which MachineConfigPools select their nodes. It writes them to
// ConfigMap machine-config-pool-labels, the parameter of the admission policy bunsen-node-labels
// (config/rbac/nodes-labels-admission.yaml). The policy cannot use the pools themselves: if the API server does not
// have their kind, it would refuse every write to a Node.
//
// In: MachineConfigPools, the ConfigMap. Out: the ConfigMap with one entry for each pool. Never: a label of a Node, a
// decision about who may set it.
package poollabels
