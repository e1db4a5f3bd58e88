// Command deadcode reports the functions that no program of the project can reach.
//
//	deadcode [-root DIR]
//
// Command deadcode works like golang.org/x/tools/cmd/deadcode, but analyses only the bodies of the project's own
// functions. It reads only the types of libraries, because the analysis of the function bodies of Kubernetes takes
// minutes. So deadcode assumes that a library calls every function and every exported method that it can access.
//
// In: the programs in cmd/ and in the module standalone, and allowed.txt. Out: each unreachable function with its
// place, and exit status 1. Never: a line of allowed.txt without a reason, or about a function that can be reached or
// does not exist.
package main
