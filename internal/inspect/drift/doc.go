// Package drift lists the differences of nodes from their configs, as their daemons report them, and the nodes whose
// drift is unknown.
//
// In: Nodes, heartbeats of daemons, now. Out: rows, as data and as text. Never: I/O; contents of files.
package drift
