// Package ports finds TCP ports on loopback for programs that open them later, or again after a restart.
//
// In: the kernel's range of ephemeral ports. Out: ports outside of it, each for one test process. Never: a port that
// the kernel gives to a connection, which could then take it between two starts of a program.
package ports
