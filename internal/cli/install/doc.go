// Package install puts Bunsen on a cluster, checks what is there, and removes it. Manifest, Phases and States decide:
// which objects, in which order, whether the cluster meets the requirements, and whether the parts work. Installation
// and Removal carry that out and show how far they are.
//
// In: the manifests of config/, options of a user, a cluster. Out: objects on the cluster, progress, problems with
// their fixes, and the user's next steps. Never: a change while a requirement is not met.
package install
