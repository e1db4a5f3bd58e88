// Package main is a hollow kubelet, as in kubemark: the real kubelet of Kubernetes with a container runtime that runs
// nothing. Together with this module's control plane, a hollow kubelet creates nodes whose pods are scheduled, become
// ready, are evicted and end as on real nodes. Tests drain the nodes of hollow kubelets.
//
// The hollow kubelet is a separate program, because the embedded control plane does not need it. A test builds it into
// bin/hollow-kubelet when it needs it.
//
// In: a kubeconfig of the node. Out: a Node, its lease, its pods' statuses; files below one folder. Never: a running
// container, a listening network port, a release.
package main
