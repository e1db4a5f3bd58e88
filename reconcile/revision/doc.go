// Package revision decides whether the cluster has one whole revision of each GitSource. A revision takes effect
// completely or not at all: the writes that are planned are recorded first, and while a live object differs from this
// record, no pool with objects of the source is rendered or rolled out. ReadState reads the objects that a repository
// may contain.
//
// In: the status of GitSources, live objects. Out: digests, the first difference, why a pool has to wait, the content
// that restores a revision. Never: a write, the repository, a clock.
package revision
