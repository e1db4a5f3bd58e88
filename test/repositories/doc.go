// Package repositories makes directories that are, contain or look like git repositories, for the tests of every place
// that opens one by a path.
//
// In: an empty directory, the program git. Out: one case for each kind of path, with the repository that it must lead
// to. Never: a repository that git did not write, except those that a commit plants.
package repositories
