// Package main gets a kubelet's identity as a kubelet does: by a bootstrap token it asks for a certificate for
// system:node:<name>, which the controller manager approves and signs, and writes a kubeconfig with it.
//
// In: flags, the bootstrap kubeconfig. Out: the kubeconfig. Never: a second request where the kubeconfig is there.
package main
