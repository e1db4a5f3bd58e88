// Command diff measures `bunsen diff` of two commits in a git repository: the program itself with and without results
// of earlier runs, and its steps in one process. It also measures how the time grows with the change and with the
// repository.
//
// In: flags; git; the program, which it builds if none is given. Out: tables on standard output. Never: a network, a
// cluster, the user's cache.
package main
