// Package commits finds the commits that are new in one commit compared with another commit.
//
// In: a folder of commits. Out: the evidence that a check of signatures and of the history reads. Never: a remote; the
// check of signatures.
package commits
