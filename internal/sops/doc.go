// Package sops decrypts and encrypts files in the format of SOPS, in memory, with keys of age that its caller gives it.
// For keys of other kinds, it decides for which of them the caller's key service is asked.
//
// In:    an encrypted file, or values to encrypt; age identities or recipients; a function that asks a key service
// Out:   the decrypted file, or the encrypted one
// Never: reads files or the environment, starts programs, or connects to a service
package sops
