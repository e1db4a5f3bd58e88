// Package sops decrypts and encrypts files in the format of SOPS, in memory, with keys of age that its caller gives it.
//
// In:    an encrypted file, or values to encrypt; age identities or recipients
// Out:   the decrypted file, or the encrypted one
// Never: reads files or the environment, starts programs, or asks another service
package sops
