// Package vmcheck stands in for a library that tells whether a machine is VMware's.
//
// In: nothing. Out: no. Never: another answer.
package vmcheck
