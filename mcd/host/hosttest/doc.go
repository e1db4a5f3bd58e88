// Package hosttest has what tests of the daemon need of a machine: one that lives in memory and prints itself as text,
// wrappers that make any host fail or crash at a chosen point, and the suite that every host has to pass.
//
// In: a host.Host to wrap or judge. Out: Machine, Fault wrappers, Conformance. Never: a real machine, the daemon's plans.
package hosttest
