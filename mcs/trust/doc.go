// Package trust decides which certificates the nodes of a pool get, beside their config.
//
// In: objects with certificates, the state before, and the time. Out: the next state, problems of objects, and the
// files for the pools of a node. Never: I/O, private keys, secrets.
package trust
