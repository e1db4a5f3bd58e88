// Package oci reads the files of a source from an artifact in an OCI registry.
//
// In: the address of a repository, a tag or digest, a Secret's data, public keys. Out: refs whose hashes are SHA-256 digests
// of manifests, and the files of an artifact. Never: content with another digest; a credential for a host that the Secret
// does not name; a part of a registry's answer in an error.
package oci
