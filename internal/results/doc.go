// Package results stores what pure steps returned, so that the next run on the same machine computes only what changed.
// The key of a result is the digest of everything that its step read, the program included, so no result is ever out of
// date.
//
// In: keys and values of steps. Out: the values of earlier runs. Never: a value that is not as it was put; a file that
// others can read or write; more bytes than the limit.
package results
