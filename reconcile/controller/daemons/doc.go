// Package daemons reads when the daemon of each node last reported.
//
// In: MachineConfigNodes. Out: the last heartbeat of each node's daemon. Never: a watch, because heartbeats change all
// the time.
package daemons
