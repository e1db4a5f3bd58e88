// Command machine-config-controller follows git repositories, renders every pool's config and rolls it out.
//
// In: flags, a kubeconfig or the pod's service account. Out: the running controllers. Never: logic of its own.
package main
