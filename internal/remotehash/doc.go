// Package remotehash finds the remote files and OS images of documents, and writes their hashes and digests into the
// text of a document, so that comments and formatting stay.
//
// In: a document of Butane, Ignition or Kubernetes as YAML or JSON, hashes. Out: addresses with their lines, an edited
// text. Never: a download, any I/O.
package remotehash
