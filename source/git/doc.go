// Package git lists a remote's refs, fetches one commit and writes the files of its tree to disk.
//
// The package runs no git binary, reads no git or ssh configuration of a user and keeps no clone. A poll is one listing
// of refs. A fetch reads one commit without its history, with a size limit. The package writes files from git's blobs,
// so symbolic links, filters and hooks of a repository have no effect on the machine. The package reads submodules like
// any other repository.
//
// In: a URL, a Secret's data, a picked commit. Out: refs, a commit, a source.Tree; errors are faults. Never:
// credentials in an error; a file that is not in the commit; a write outside the given folder.
package git
