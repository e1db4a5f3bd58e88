// Package configrepo makes the first configuration repository: a bare git
// repository whose first commit is an example.
//
// In: the folder of an example; where the repository is to be.
// Out: the repository, whole or not at all.
// Never: touches a repository that exists, or the folder of the example.
package configrepo
