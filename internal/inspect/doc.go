// Package inspect combines what a user reads about a cluster: the one-screen status, its live screen and its changes,
// and the reason why a node, a pool or a GitSource waits.
//
// In: API objects and now. Out: tables, lines and blocks of text, and the same as data. Never: reading or changing the
// cluster or a repository; a decision that the rollout or the controllers did not make.
package inspect
