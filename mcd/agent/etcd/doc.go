// Package etcd asks the members of etcd whether they are healthy, on a node that runs a member. Package etcd uses the
// client certificate that kubeadm, k3s or RKE2 stored on that node.
//
// In: files of the node. Out: the number of members, and how many are healthy. Never: a change of etcd, its keys, a
// certificate or key in a text.
package etcd
