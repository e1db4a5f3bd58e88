// Package references checks the references to secrets in a config that a document became.
//
// In: a config, and the places of its values. Out: findings. Never: I/O, the value of a secret.
package references
