// Package lfs downloads contents of Git LFS, and writes them in place of the pointers in the files of a commit.
//
// In: pointers in the files of a commit, the credentials of its repository. Out: the contents that the pointers name,
// on disk. Never: credentials to another host than the repository's; a content that does not match its pointer; text of
// an answer in an error; a setting from .lfsconfig.
package lfs
