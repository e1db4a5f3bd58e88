// Package store keeps trees on disk, so that a commit is fetched once: not for each look at it, and not after a restart.
//
// A store is one folder. `trees/<digest>` holds a tree's files, `keys/<hash>.json` says which commit and path has which
// tree, and `new/` holds what is being written; it is emptied when the store is opened. A tree appears by one rename and
// its files are compared with their digest before they are used, so a crash or a stray hand leaves nothing half or wrong.
// One process holds a store, by a lock; within it everything is safe for concurrent use.
//
// In: commits, and functions that put files into a folder. Out: source.Tree. Never: a remote; a file outside the store.
package store
