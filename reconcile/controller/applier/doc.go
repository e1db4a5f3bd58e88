// Package applier writes the objects of a revision to the cluster, completely or not at all.
//
// In: the transpiled content of a commit, the live objects. Out: the objects of the source, GitSource.status.applying,
// RevisionContents.
// Never: a fetch, or a write to an object of another owner.
package applier
