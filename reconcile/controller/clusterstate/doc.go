// Package clusterstate reads which objects of each source are on the cluster, and compares them with what the source
// applied.
//
// In: the objects of the kinds that a repository may contain, and the GitSources. Out: Objects, Revisions. Never: a
// write.
package clusterstate
