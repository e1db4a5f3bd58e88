// Package secrets creates age keys, and encrypts, edits, rotates and decrypts files of a repository.
//
// In:    flags, files, creation rules, the user's age keys and editor
// Out:   files, which appear whole or not at all
// Never: a value in any other place than the encrypted file, the editor's private file, or the output that the user
// requested
package secrets
