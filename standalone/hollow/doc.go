// Package main is a hollow kubelet: the real kubelet of Kubernetes on a container
// runtime that runs nothing, as kubemark has it. Beside the control plane of this
// module it makes nodes whose pods are scheduled, get ready, are evicted and end
// as on real ones. Tests drain such nodes.
//
// It is a program of its own, built into bin/hollow-kubelet on demand: the embedded
// control plane does without it.
//
// In: a kubeconfig of the node. Out: a Node, its lease, its pods' statuses; files
// below one folder.
// Never: runs a container, listens on a network, ships.
package main
