// Package certs creates, stores and renews the certificates of the server, or uses certificates that a user supplies.
//
// The certificates are in a directory, or in Secrets that all replicas share. Each sync reads all certificates,
// computes with a pure function (material.renewed) how they should be, and writes the difference. A sync writes a
// Secret only over the version that it read. So if several replicas write at the same time, one replica succeeds, and
// the other replicas read again.
//
// In: a directory or Secrets. Out: a TLS configuration with the current certificate. Guarantees: a renewed CA keeps its
// key, so machines that trust the old certificate trust the new certificate. Never: a key outside of its store.
package certs
