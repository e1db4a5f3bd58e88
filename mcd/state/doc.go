// Package state has the files that the daemon stores below host.StateDir, for root only: the update under way (Task),
// the config that the machine rejected (Rejection), the force file of a user, and the addresses of the servers.
//
// Attempts counts how often applying a config ended in a way that a power cut may have caused, and says when the daemon
// gives the config up. The agent, the health check and the first boot use one rule.
//
// In: a host.Host, the causes of rollbacks. Out: the contents of the files, durable when a call returns, and the texts
// that name a config and who requested it. Never: the API server, a log.
package state
