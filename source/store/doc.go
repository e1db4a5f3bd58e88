// Package store keeps trees on disk, so that each commit is fetched once, also across restarts.
//
// A store is one folder. `trees/<digest>` contains a tree's files, `keys/<hash>.json` maps a commit and path to a tree,
// and `new/` contains incomplete trees; Open empties it. A complete tree appears by one rename, and the store compares
// its files with their digest before use. So a crash or a manual change never yields a wrong tree. One process locks a
// store. Within the process, all methods are safe for concurrent use.
//
// In: commits, and functions that write files into a folder. Out: source.Tree. Never: a remote; a file outside the
// store.
package store
