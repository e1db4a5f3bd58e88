// Package daemon writes the Ignition config that installs machine-config-daemon as a service on a new machine.
//
// In: the daemon's binary, or its URL and hash; the path at which to install it. Out: units, and an Ignition config
// with the binary. Never: a download, or a part of a pool's config.
package daemon
