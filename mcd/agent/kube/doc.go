// Package kube calls the API server for one node. It reads and writes the Node's annotations, reads configs and the cluster's
// policies, watches the Node, writes events and the MachineConfigNode, and classifies errors for the health check. Its types
// implement the interfaces that the agent declares. An error without an answer wraps report.ErrUnreachable, and every call has
// a time limit.
//
// In: a rest.Config, the node's name; the address of a kubelet. Out: calls with the kubelet's rights. Never: another node,
// evictions, the machine's disk, a decision about what to do.
package kube
