// Package pki makes the keys and certificates of a local control plane once,
// keeps them in a folder, and renews on the next start what is near its end.
//
// In: a folder, the wanted certificates, the time.
// Out: PEM files, readable by their owner only; whole or not at all.
// Never: replaces an authority that is valid, prints a key, reads the clock.
package pki
