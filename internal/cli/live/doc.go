// Package live keeps the status of a cluster current on a terminal. If there is no terminal, package live prints a line
// for each change.
//
// In: the state of the cluster after each change, the size of the terminal. Out: frames or lines on standard output.
// Never: a decision about the content of the status.
package live
