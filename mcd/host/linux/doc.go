// Package linux creates a host: for a real machine, for a machine that is not running, or for a simulated machine. A
// simulated host has real files, unit files and enablement symlinks in its own directory. The host of a machine that is
// not running prints actions that need a running machine: reloads, restarts and reboots.
//
// In: the directory that is the machine's root. Out: host.Host. Never: a path outside of that root; a decision about
// what to change.
package linux
