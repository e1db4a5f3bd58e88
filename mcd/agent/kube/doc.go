// Package kube calls the API server for one node. Package kube reads and writes the Node's annotations, reads configs
// and the cluster's policies, watches the Node, writes events and the MachineConfigNode, and classifies errors for the
// health check. The types of package kube implement the interfaces that the agent declares. If the API server does not
// answer, the error wraps report.ErrUnreachable. Every call has a time limit.
//
// In: a rest.Config, the node's name; the address of a kubelet. Out: calls with the kubelet's rights. Never: another
// node, evictions, the machine's disk, a decision about what to do.
package kube
