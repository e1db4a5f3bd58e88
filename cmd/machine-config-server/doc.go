// Package main is machine-config-server: it serves each pool's rendered config as Ignition to machines that boot for the
// first time.
//
// In: flags, an API server, a certificate directory. Out: HTTPS on port 22623. Never: a decision of its own.
package main
