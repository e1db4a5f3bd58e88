// Package process has what the daemon and a simulated host share: their flags, and what connects an agent to its
// cluster, to the servers and to the disk.
//
// In: flags and a host. Out: the config of an agent, with everything that runs beside it. Never: a decision about a
// config.
package process
