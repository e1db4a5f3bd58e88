// Package history answers queries from the commits of a local repository: which commit last changed a line, and where
// two revisions diverged.
//
// In: a git.LocalRevision, a file and line numbers. Out: the commit of each line; errors are faults. Never: a write; a
// remote; the text of a file from outside the repository's objects.
package history
