// Package mcs decides what a new machine gets: which rendered config its pool serves, in which version of Ignition and in
// which encoding, what is added so that the machine knows what it booted and can join, and what of it stays secret.
//
// In: a pool, its rendered MachineConfig, what the server adds, the request's Accept headers. Out: one complete Ignition
// config as bytes, with room for a bootstrap token where machines join, or an error that names what stands in the way.
// Never: a change of its input, the network, a clock.
package mcs
