// Package source defines refs, commits and trees of a repository, selects the commit to follow, and says which fields
// of a GitSource do not fit together.
//
// In: the spec of a GitSource, listed refs. Out: an Address, a Picked commit, the shape of a Tree and its digest; or
// Stalled faults that say what to write. Never: any I/O; source/repository reads remotes.
package source
