// Package rollback decides which commits and files a rollback of a pool reverts, and writes the message of the commit
// that reverts them.
//
// In: the objects of a cluster, lists of the files of commits. Out: a range of commits, the files to restore,
// conflicts, texts. Never: I/O; the contents of files.
package rollback
