// Package files is the file system of a machine, below a directory that stands for its root.
//
// Package beneath opens the directory of each path, and every change is made through that open directory (openName), so
// that no link of a user leads it elsewhere. A file is written beside its name and renamed (disk.swap). The new file
// gets the SELinux label and the user attributes of the old one; a file that is restored gets back everything it had.
// A change is durable when the call returns or, in a batch, after the next Flush.
//
// Three things stand in files of the daemon: the journal of the update under way; what this update replaces, in one
// file, so that one flush makes it durable (Store); and the contents of remote files below host.ContentDir, named by
// their SHA-256, with links for other hashes, and unfinished downloads (ContentStore).
//
// In: the directory that is the machine's root; entries, contents and hashes. Out: host.Files, host.Disk, host.Journal,
// host.Store, host.ContentStore, fetch.Store, fetch.Partials. Never: a path outside of the root, a link of a user to
// files of another owner, the network, contents without the right hash under their final name, a decision about what to
// change.
package files
