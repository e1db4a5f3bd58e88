// Package statefile reads and writes the files that the agent stores below host.StateDir, for root only: the update
// under way, the config that the machine rejected, and the addresses of the servers.
//
// In: a host.Host. Out: Task, Rejection, the force file. Never: the API server, a log.
package statefile
