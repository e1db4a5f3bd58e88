// Package content stores the contents of remote files on a machine, below host.ContentDir: complete contents under the
// SHA-256 of their bytes, links to them under other hashes, and unfinished downloads.
//
// In: bytes, hashes. Out: files with verified contents. Never: the network, contents without the right hash under their
// final name.
package content
