// Package contents lists the items of a rendered config with the documents that set the items, and searches items.
//
// In: a rendered config, its inputs and its trace. Out: items and matches, with secrets masked. Never: I/O; the
// contents of files.
package contents
