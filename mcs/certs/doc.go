// Package certs makes, keeps and renews the certificates that the server shows to machines, or follows somebody else's.
//
// What is kept lies in a directory, or in Secrets that all replicas share. Each look at it is: read all there is, ask one
// pure function (material.renewed) how it should be, write what differs. A Secret is written only as it was read, so of
// several replicas that look at once one wins and the others read again.
//
// In: a directory or Secrets. Out: a TLS configuration that is always current. Never: a key that leaves its place, a machine
// that trusts the old CA and is turned away.
package certs
