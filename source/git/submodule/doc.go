// Package submodule reads which repositories the submodules of a commit are.
//
// In: the file .gitmodules, the address of the repository that has it. Out: the address of each submodule. Never: I/O;
// a host, a port or a transport other than those of the repository.
package submodule
