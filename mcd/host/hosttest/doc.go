// Package hosttest has a simulated machine for tests of the daemon: it is in memory and prints itself as text. The
// package also has wrappers that make a host fail or crash at a chosen point, and the conformance suite for hosts.
//
// In: a host.Host to wrap or to test. Out: Machine, Fault wrappers, Conformance. Never: a real machine, the daemon's
// plans.
package hosttest
