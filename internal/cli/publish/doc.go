// Package publish pushes the files of a commit to an OCI registry.
//
// In: a repository on this machine, a revision, the address of a tag, a user's credentials and key. Out: an artifact
// with a signature in the registry, and its digest. Never: a file that is not in the commit; a credential in an output.
package publish
