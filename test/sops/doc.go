// Package sops tests the client of internal/sops with SOPS itself: each kind of key with the server's own
// messages, and a PGP key with the program.
//
// In: recipients. Out: what the real key service reads and answers. Never: a network.
package sops
