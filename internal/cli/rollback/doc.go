// Package rollback prepares the commit that takes a pool back to an earlier one. Choose decides which commits and files
// it reverts and writes its message; Options makes it in a clone, with the user's git, and pushes it if the user wants
// that.
//
// In: the objects of a cluster, the files of commits, a clone. Out: a range of commits, conflicts, a branch with one
// commit, a pull request. Never: a change of the cluster; the user's work tree, index or current branch; a forced push.
package rollback
