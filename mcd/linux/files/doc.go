// Package files stores the contents of remote files on a machine, below host.ContentDir: complete contents under the
// SHA-256 of their bytes, links to them under other hashes, and unfinished downloads.
//
// In: bytes, hashes. Out: files with verified contents. Never: the network, contents without the right hash under their
// final name.
//
// The part files is the file system of a machine below a directory, with the journal and the store of replaced
// contents. Package beneath opens every path, and package files makes each change through an open directory. A write
// copies SELinux labels and user attributes to the new file. A change is durable when the call returns or, in a batch,
// after the next Flush.
//
// In: the directory that is the machine's root. Out: host.Files, host.Disk, host.Journal, host.Store. Never: a path
// outside of the root, a link of a user to files of another owner, a decision about what to change.
package files
