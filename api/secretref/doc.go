// Package secretref reads and writes the references to secrets in a config: files whose contents the server resolves
// for the nodes that may have them. A reference is ordinary content of the config, so the name of a rendered config
// stays a function of the commit.
//
// In: an Ignition config, and values of secrets. Out: references, and configs with resolved contents. Never:
// decryption, I/O, a value in an error.
package secretref
