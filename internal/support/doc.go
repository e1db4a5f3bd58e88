// Package support decides what a support bundle has: which parts of objects and logs, without secrets, in which order
// and up to which size.
//
// In: objects and texts of a cluster. Out: a tar.gz of masked files, and the list of what it leaves out. Never: the
// content of a file, of a unit or of a Secret; a request to a cluster.
package support
