// Package repository opens the repository of a source with the credentials of its Secret, or with tokens that it gets
// in exchange for these credentials.
//
// In: the URL, the Secrets and the limits of a source. Out: a repository. Never: a request before the first listing; a
// credential for a host that its Secret does not name.
//
// The part polling lets the sources of one repository share data that they read from it: listings of its refs, and the
// commits that a check of signatures and of the history needs. So many sources of one repository cost about as many
// requests as one.
//
// In: the polls of sources, functions that read the repository. Out: refs, and when their listing began; evidence.
// Never: an answer that the repository gave to other credentials, a secret, a goroutine, a wait for another repository.
//
// The part store keeps trees on disk, so that each commit is fetched once, also across restarts.
//
// A store is one folder. `trees/<digest>` contains a tree's files, `keys/<hash>.json` maps a commit and path to a tree,
// and `new/` contains incomplete trees. Open deletes everything in `new/`. The store renames a complete tree to its
// final name in one step, and compares the files with the digest before each use. So a crash or a manual change never
// leads to a wrong tree. Only one process at a time can open a store, because Open locks it. Within the process, all
// methods are safe for concurrent use.
//
// In: commits, and functions that write files into a folder. Out: source.Tree. Never: a remote; a file outside the
// store.
package repository
