// Package oci reads the files of a source from an artifact in an OCI registry, and pushes such artifacts. It also
// stores large files of configs in a registry.
//
// In: the address of a repository, a tag or digest, a Secret's data, public keys; for a push files, a
// user's credentials and a private key. Out: refs whose hashes are SHA-256 digests
// of manifests, and the files of an artifact. Never: content with another digest; a credential for a host that the
// Secret does not name, or for a host to which a push is redirected; a part of a registry's answer in an error.
package oci
