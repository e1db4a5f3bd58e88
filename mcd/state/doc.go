// Package state reads and writes the files that the agent stores below host.StateDir, for root only: the update
// under way, the config that the machine rejected, and the addresses of the servers.
//
// In: a host.Host. Out: Task, Rejection, the force file. Never: the API server, a log.
//
// The part attempts counts the attempts to apply a config whose failure may be the effect of a power cut. The package
// also decides when the daemon stops retrying. The packages agent, apply and once use it.
//
// In: the cause of a rollback, the counts of earlier attempts as JSON. Out: Count. Never: any I/O, a file's name.
package state
