// Package source defines refs, commits and trees of a repository, and selects the commit to follow.
//
// In: listed refs and the ref of a GitSource. Out: a Commit, a Tree. Never: any I/O; source/git reads the remote.
package source
