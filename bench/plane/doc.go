// Package plane starts a real control plane for the programs in bench/, and the controller as a process of its own, so
// that its CPU time, its memory and its requests count alone.
//
// In: folders with etcd, kube-apiserver and the CRDs. Out: a cluster, the controller's requests from the audit log, its
// usage. Never: a cluster of the user.
package plane
