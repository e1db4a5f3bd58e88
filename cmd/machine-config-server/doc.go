// Package main is the program machine-config-server, which serves each pool's rendered config as Ignition to authorized
// machines that boot for the first time.
//
// In: flags; an API server, or files or a repository in its place; a certificate. Out: HTTPS on port 22623. Never: a
// decision of its own.
package main
