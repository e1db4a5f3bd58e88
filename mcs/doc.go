// Package mcs decides what a new machine gets: which rendered config, in which version of Ignition and which encoding,
// with the files that the machine needs to know its config and to join the cluster, and without secrets that it may not
// have. Each body is made once, and all requests share it.
//
// In: pools with their rendered MachineConfigs, the server's additions, the Accept headers of a request. Out: one
// complete Ignition config as bytes, plain or gzip, with a placeholder where a bootstrap token goes; or an error that
// names the problem. Never: a change of its input, a second creation of the same body, the network, a clock.
package mcs
