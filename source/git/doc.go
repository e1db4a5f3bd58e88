// Package git speaks git: it lists a remote's refs, fetches one commit and puts the files of its tree on disk.
//
// Nothing here runs a git binary, reads a user's git or ssh configuration, or keeps a clone. A poll is one listing of
// refs; a fetch is one commit without its history, held in memory under a limit. Files are written from git's blobs, so
// no symbolic link, submodule, filter or hook of a repository has any effect on the machine that reads it.
//
// A History walks a local repository's commits to say which one last changed a line; it reads one tree entry for each
// commit, and compares lines only where the file changed.
//
// In: a URL, a Secret's data, a picked commit. Out: refs, a commit, a source.Tree; errors are faults. Never: credentials
// in an error; a file that is not in the commit; a write outside the folder it is given.
package git
