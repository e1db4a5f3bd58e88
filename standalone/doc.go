// Package main is the embedded control plane in one executable: the real etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler and kubectl, chosen by
// the name it is run under or by its first argument, and the supervisor that runs
// them beside Bunsen's own programs.
//
// It is a Go module of its own, because the Kubernetes modules are pinned by
// replace lines; it never imports Bunsen's module.
//
// In: a command line.
// Out: the chosen program.
// Never: contains logic; that is in package up.
package main
