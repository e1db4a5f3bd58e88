// Package hashing downloads the remote files of documents, and writes their hashes into the documents.
//
// In: paths of documents. Out: edited documents, one result for each address. Never: a cluster, a downloaded file on
// disk.
package hashing
