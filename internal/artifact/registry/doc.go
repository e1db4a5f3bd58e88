// Package registry reads files from OCI registries: the only layer of a manifest that its digest names. It requests the
// tokens that registries demand, with the reader's credentials or for everybody, and tries mirrors before the registry.
//
// In: artifacts, credentials, mirrors, a Client. Out: the answer of a registry with the bytes of a file. Never:
// credentials for another host than the registry and its token service, a connection without TLS, a file on disk.
package registry
