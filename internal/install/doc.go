// Package install decides how Bunsen is installed on a cluster: which objects, in which order, whether the cluster
// meets the requirements, and whether the parts work.
//
// In: the manifests of config/, options of a user, and facts that were read from the cluster. Out: objects to apply,
// problems with their fixes, and the state of each part. Never: a request to a cluster.
package install
