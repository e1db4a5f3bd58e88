// Package main is a control plane in one executable: the real etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl, selected by the name under
// which it runs or by its first argument, and the supervisor that runs them with
// Bunsen's own programs.
//
// The standalone control plane is a separate Go module, because replace lines pin the Kubernetes modules. This module
// never imports Bunsen's module.
//
// In: a command line. Out: the chosen program. Never: any logic, which is in package up.
package main
