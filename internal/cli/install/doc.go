// Package install has the verbs that install Bunsen on a cluster, check an installation, and remove it.
//
// In: flags, the manifests, a cluster. Out: objects on the cluster, progress, and the user's next steps. Never: a
// decision about the requirements of an installation; package install has those.
//
// The part install decides how Bunsen is installed on a cluster: which objects, in which order, whether the cluster
// meets the requirements, and whether the parts work.
//
// In: the manifests of config/, options of a user, and facts that were read from the cluster. Out: objects to apply,
// problems with their fixes, and the state of each part. Never: a request to a cluster.
package install
