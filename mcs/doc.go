// Package mcs decides what a new machine gets: which rendered config its pool serves, in which version of Ignition, and
// what is added so that the machine knows what it booted.
//
// In: a pool, its rendered MachineConfig, the request's Accept header. Out: one complete Ignition config as bytes, or an
// error that names what stands in the way. Never: a change of its input, the network, a clock.
package mcs
