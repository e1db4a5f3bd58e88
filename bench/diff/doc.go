// Command diff measures `bunsen diff` of two commits in a git repository: the program itself with and without results of
// earlier runs, its steps in one process, and how the time grows with the change and with the repository.
//
// In: flags; git; the program, which it builds where it is not given. Out: tables on standard output. Never: a network, a
// cluster, the user's cache.
package main
