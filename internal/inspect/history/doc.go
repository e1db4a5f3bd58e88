// Package history lists the commits of a pool and the result of each rollout.
//
// In: the histories of GitSources, a pool's records, rendered configs. Out: rows, as data and as text; notes on lost
// records. Never: I/O; a guess.
package history
