// Package certs creates, stores and renews the certificates of the server, or uses those of a user.
//
// A directory stores them, or Secrets that all replicas share. Each sync reads everything, computes with a pure function
// (material.renewed) how it should be, and writes the difference. It writes a Secret only over the version that it read. So one
// of several concurrent replicas succeeds, and the others read again.
//
// In: a directory or Secrets. Out: a TLS configuration with the current certificate. Guarantees: a renewed CA keeps its key, so
// machines that trust the old certificate trust the new one. Never: a key outside of its store.
package certs
