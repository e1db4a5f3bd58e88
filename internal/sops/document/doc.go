// Package document reads and writes files that SOPS encrypted, without any key.
//
// In:    the bytes of a file in one of SOPS's formats
// Out:   the tree of its keys and values, its metadata, and the bytes of a tree; which keys have which ciphertext
// Never: decrypts, encrypts, or reads files
package document
