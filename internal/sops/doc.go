// Package sops decrypts and encrypts files in the format of SOPS, in memory, with keys of age that its caller gives it.
// For other kinds of keys it asks the user's key service, on this host. Creation rules say for whom a file is
// encrypted, and which of its values.
//
// In: an encrypted file, or values to encrypt; age identities or recipients; the text of a .sops.yaml. Out: the
// decrypted file, or the encrypted one; the rule for a path. Never: a file, the environment or a program; a key service
// of another host.
package sops
