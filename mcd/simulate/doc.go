// Package simulate is the kubelet of a simulated host. The simulated kubelet reports the Node object as Ready, and
// reports pods of the node as running without starting containers. The simulation uses only a kubelet's rights (Node
// authorizer, NodeRestriction), so that a daemon with the same rights works on a real host.
//
// In: a client with the identity system:node:<name>. Out: the Node with its status and lease; pods' statuses. Never:
// the host's files, the daemon's annotations, another node.
package simulate
