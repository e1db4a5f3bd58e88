// Package main is the program machine-config-daemon, which applies the desired config of one Node object to the
// machine.
//
// In: flags. Out: a running agent on a real host; exit codes. Never: a simulated host, which is cmd/simulated-host;
// logic: each command constructs and runs.
package main
