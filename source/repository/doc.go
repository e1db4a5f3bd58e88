// Package repository opens the repository of a source, with everything that the sources of one process share.
//
// A Repository has three methods. List returns its refs, or the listing of another source that reads the same
// repository with the same credentials. Evidence returns the commits that a check of signatures and of the history
// needs, and is shared alike. Tree returns the files of a commit, from the disk if the commit was fetched before. So
// many folders of one repository cost about as many requests as one, and a restart fetches nothing again.
//
// An Opener decides which reader a spec gets (git or OCI), through which proxy, and with which credentials: those of
// the Secret, or tokens that it gets in exchange for them or for the identity of the process. Credentials that expire
// are requested for each request, and dropped when the remote refuses them.
//
// A Store is one folder. `trees/<digest>` has the files of a tree, `keys/<hash>.json` maps a commit and a path to a
// tree, and `new/` has incomplete trees, which Open deletes. A complete tree is renamed to its final name in one
// step, and its files are compared with the digest before each use, so neither a crash nor a manual change leads to a
// wrong tree. A lock keeps other processes out.
//
// In: specs and Secrets of GitSources, polls, picked commits. Out: refs and when they were listed, evidence, trees;
// or faults. Never: a request before the first List, Evidence or Tree; a credential for a host that its Secret does
// not name; an answer that the repository gave to other credentials; a wait for another repository.
package repository
