// Package kube connects bunsen to a cluster: it reads the kubeconfig, reads the objects that verbs show, applies a
// user's changes, and explains errors of the API server.
//
// In: flags, a kubeconfig. Out: objects, patches, errors that say what to do. Never: a decision about the objects.
package kube
