// Package installing has the verbs that install Bunsen on a cluster, check an installation, and remove it.
//
// In: flags, the manifests, a cluster. Out: objects on the cluster, progress, and the user's next steps. Never: a
// decision about the requirements of an installation; package install has those.
package installing
