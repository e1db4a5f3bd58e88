// Package sshkeys turns an SSHKeys document, which lists users and their SSH keys, into the users of a config.
//
// In: an SSHKeys document with its origins. Out: a config with the users' keys, or findings at the keys' lines. Never:
// a key that sshd would ignore silently; a private key, or any key in a message.
package sshkeys
