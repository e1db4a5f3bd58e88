// Package machine reads which OS a machine runs, and runs the machine's own programs.
//
// In: a machine's files, the directory of its root. Out: os-release, the arguments of the running kernel, the output of
// programs. Never: a decision, the output of a program in a log, a secret of a registry in an error.
package machine
