// Package revision decides whether the cluster has one whole revision of each GitSource. A revision takes effect
// completely or not at all: the controller records the writes that it plans. While any live object differs from this
// record, no pool with objects of the source is rendered or rolled out.
//
// In: GitSource status, live objects. Out: digests, the first difference, why a pool has to wait, the content that
// restores a revision. Never: the API server, the repository, a clock.
package revision
