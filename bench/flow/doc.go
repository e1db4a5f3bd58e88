// Package flow measures the controller from a change until its effect, for the programs in bench/: it starts a control
// plane with the controller as a process of its own, waits for a pool, and returns what the controller needed
// meanwhile.
//
// In: folders with etcd, kube-apiserver and the CRDs; a repository. Out: a cluster; times, memory and requests of the
// controller. Never: a cluster of the user.
package flow
