// Package main is a control plane in one executable: the real etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl, selected by the name under
// which it runs or by its first argument, and the supervisor that runs them with
// Bunsen's own programs.
//
// It is a Go module of its own, because the Kubernetes modules are pinned by
// replace lines; it never imports Bunsen's module.
//
// In: a command line. Out: the chosen program. Never: logic, which is in package up.
package main
