// Package rpcvmx stands in for a library that asks VMware for a machine's config.
//
// In: nothing. Out: nothing. Never: called, since no machine of these tests is VMware's.
package rpcvmx
