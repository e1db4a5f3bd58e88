// Package feed keeps the newest state of something that is watched, for many readers at their own pace.
//
// In: states and problems, from a source that runs only while somebody reads. Out: the newest state; a reader that is slow misses states in
// between. Never: what a state contains; a reader that delays others.
package feed
