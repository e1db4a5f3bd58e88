// Package feed keeps the newest state that a source publishes. Many readers read this state, each at its own speed.
//
// In: states and problems, from a source that runs only while a page reads. Out: the newest state; a slow reader
// misses states in between. Never: the content of a state; a reader that delays other readers.
package feed
