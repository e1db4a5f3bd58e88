// Package machines creates, lists and revokes provisioning tokens, and writes the configs with which new machines boot.
//
// In: flags, the tokens and servers of a cluster, a file of tokens. Out: tokens, pointer configs, notes. Never: a token
// in any other place than the output that the user requested.
package machines
