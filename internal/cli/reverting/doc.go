// Package reverting prepares the commit of a rollback in a clone, with the user's git, and pushes the commit if the
// user wants that.
//
// In: a choice of package rollback, a clone. Out: a branch with one commit, a pull request. Never: a change of the
// cluster; the user's work tree, index or current branch; a forced push.
package reverting
