// Package rollback prepares the commit of a rollback in a clone, with the user's git, and pushes the commit if the
// user wants that.
//
// In: a choice of package rollback, a clone. Out: a branch with one commit, a pull request. Never: a change of the
// cluster; the user's work tree, index or current branch; a forced push.
//
// The part rollback decides which commits and files a rollback of a pool reverts, and writes the message of the commit
// that reverts them.
//
// In: the objects of a cluster, lists of the files of commits. Out: a range of commits, the files to restore,
// conflicts, texts. Never: I/O; the contents of files.
package rollback
