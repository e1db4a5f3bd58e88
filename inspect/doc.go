// Package inspect turns a cluster's objects into what a person reads: the one-screen status, lists, why a node or a pool
// waits, what became of a pool's commits, and the way back from a node to the line of the commit that made it so; and into
// the few changes that a person may ask for.
//
// In: API objects and now. Out: tables, lines and blocks of text, and the same as data; merge patches. Never: reading or
// changing the cluster or a repository itself; a judgement that the rollout or the controllers did not make.
package inspect
