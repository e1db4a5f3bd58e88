// Package kube speaks to the API server for one node: it reads and writes the Node's annotations, fetches configs and the
// cluster's rules, watches the Node, writes events and its MachineConfigNode, and tells what an answer, or none, says about the network. Its methods are
// those of the interfaces that the agent declares. What is no answer wraps protocol.ErrUnreachable, and no call lasts for ever.
//
// In: a rest.Config, the node's name; the address of a kubelet. Out: calls with the kubelet's rights. Never: another node,
// evictions, the machine's disk, a decision about what to do.
package kube
