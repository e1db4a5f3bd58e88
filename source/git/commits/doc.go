// Package commits reads which commits a commit adds to another one.
//
// In: a folder of commits. Out: the evidence that a check of signatures and of the history reads. Never: a remote; the check itself.
package commits
