// Package mcs decides what a new machine gets: which rendered config, in which version of Ignition and in which
// encoding. Package mcs adds files that the machine needs to know its config and to join the cluster. Package mcs also
// withholds secrets.
//
// In: a pool, its rendered MachineConfig, the server's additions, the request's Accept headers. Out: one complete
// Ignition config as bytes, or an error that names the problem. The config has a placeholder for a bootstrap token if
// machines join through the server. Never: a change of its input, the network, a clock.
package mcs
