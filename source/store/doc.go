// Package store keeps trees on disk, so that each commit is fetched once, also across restarts.
//
// A store is one folder. `trees/<digest>` contains a tree's files, `keys/<hash>.json` maps a commit and path to a tree,
// and `new/` contains incomplete trees. Open deletes everything in `new/`. The store renames a complete tree to its
// final name in one step, and compares the files with the digest before each use. So a crash or a manual change never
// leads to a wrong tree. Only one process at a time can open a store, because Open locks it. Within the process, all
// methods are safe for concurrent use.
//
// In: commits, and functions that write files into a folder. Out: source.Tree. Never: a remote; a file outside the
// store.
package store
