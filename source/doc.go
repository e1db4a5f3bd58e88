// Package source names what a repository holds: refs, commits and trees; and picks the commit to follow.
//
// In: listed refs and what a GitSource asks for. Out: a Commit, a Tree. Never: any I/O; the remote is source/git's.
package source
