// Package repository has the verbs that need a repository and no cluster. It opens directories and revisions, renders
// both sides of a comparison, and prints or writes the result.
//
// Beside that, it posts a comparison to a pull request, as one comment that it edits in place and one status; pushes
// the files of a commit to an OCI registry; writes the hashes of remote files and the digests of OS images into
// documents, whose comments and formatting stay; and creates age keys and encrypts, edits, rotates and decrypts files.
//
// In: paths, git revisions, the environment of a CI job, the user's keys and editor. Out: trees and their rendered
// pools, comparisons, files, which appear whole or not at all. Never: a file outside of the directory that the user
// named or that is not in the commit; an assessment of a change, which package review makes; a token for another server
// than the user named; a decrypted value in another place than the user asked for.
package repository
