// Package copies reads files of the content store, such as those of a cluster, and files of OCI registries. It keeps
// copies of them in a directory of bounded size. A copy is served only after the hash of the whole file was verified.
//
// In: artifacts, names of files. Out: open files. Never: a part of a file, a decision
// about who may read it.
package copies
