// Package machines simulates the machines of a cluster and their daemons, which follow the annotation protocol exactly
// and reboot at once.
//
// In: an API server. Out: Nodes that report what daemons report. Never: a file, a process.
package machines
