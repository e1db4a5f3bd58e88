// Package simulate is the kubelet of a simulated host: it keeps the Node object Ready, as a kubelet would, and runs the
// pods that are bound to it without running anything. It stays within a kubelet's rights (Node authorizer,
// NodeRestriction), so that what works on a simulated host works on a real one.
//
// In: a client with the identity system:node:<name>. Out: the Node with its status and lease; pods' statuses. Never: the
// host's files, the daemon's annotations, another node.
package simulate
