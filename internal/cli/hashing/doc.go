// Package hashing downloads the remote files of documents, and writes their hashes into the documents. It also asks
// registries for the digests of OS images, and writes these.
//
// In: paths of documents, references of images. Out: edited documents, one result for each address. Never: a cluster, a
// downloaded file on disk.
package hashing
