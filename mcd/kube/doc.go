// Package kube asks the members of etcd whether they are healthy, on a node that runs a member. Package etcd uses the
// client certificate that kubeadm, k3s or RKE2 stored on that node.
//
// In: files of the node. Out: the number of members, and how many are healthy. Never: a change of etcd, its keys, a
// certificate or key in a text.
//
// The part kube calls the API server for one node. Package kube reads and writes the Node's annotations, reads configs
// and the cluster's policies, watches the Node, writes events and the MachineConfigNode, and classifies errors for the
// health check. The types of package kube implement the interfaces that the agent declares. If the API server does not
// answer, the error wraps report.ErrUnreachable. Every call has a time limit.
//
// In: a rest.Config, the node's name; the address of a kubelet. Out: calls with the kubelet's rights. Never: another
// node, evictions, the machine's disk, a decision about what to do.
package kube
