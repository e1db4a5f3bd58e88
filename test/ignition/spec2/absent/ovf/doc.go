// Package ovf stands in for a library by which VMware hands a machine its config.
//
// In: nothing. Out: nothing. Never: called, since no machine of these tests is VMware's.
package ovf
