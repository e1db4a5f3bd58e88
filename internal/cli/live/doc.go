// Package live keeps the status of a cluster current on a terminal, or prints a line for each change if there is none.
//
// In: the state of the cluster after each change, the size of the terminal. Out: frames or lines on standard output. Never: the content
// of the status.
package live
