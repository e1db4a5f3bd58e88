// Package repository renders both sides of a comparison: directories, revisions, or what the nodes of a cluster run.
//
// In: arguments and flags of diff and comment. Out: a comparison of package review. Never: an assessment of a change;
// package review does that.
//
// The part folders opens config repositories, as directories or revisions, and writes new directories.
//
// In: paths, git revisions. Out: trees, their rendered pools, files below a new directory. Never: a file outside the
// directory that the user named; a cluster.
//
// The part hashing downloads the remote files of documents, and writes their hashes into the documents. It also asks
// registries for the digests of OS images, and writes these.
//
// In: paths of documents, references of images. Out: edited documents, one result for each address. Never: a cluster, a
// downloaded file on disk.
//
// The part publish pushes the files of a commit to an OCI registry.
//
// In: a repository on this machine, a revision, the address of a tag, a user's credentials and key. Out: an artifact
// with a signature in the registry, and its digest. Never: a file that is not in the commit; a credential in an output.
//
// The part pullrequest posts a comparison to a pull request: one comment that is edited in place, and one status.
//
// In: a comparison, the environment of a CI job. Out: requests to the service, or in a dry run only the comment. Never:
// a token for any server except the one that the user named.
//
// The part remotehash finds the remote files and OS images of documents, and writes their hashes and digests into the
// text of a document, so that comments and formatting stay.
//
// In: a document of Butane, Ignition or Kubernetes as YAML or JSON, hashes. Out: addresses with their lines, an edited
// text. Never: a download, any I/O.
//
// The part secrets creates age keys, and encrypts, edits, rotates and decrypts files of a repository.
//
// In:    flags, files, creation rules, the user's age keys and editor
// Out:   files, which appear whole or not at all
// Never: a value in any other place than the encrypted file, the editor's private file, or the output that the user
// requested
package repository
