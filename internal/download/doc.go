// Package download requests files from HTTP servers and OCI registries: the only layer of a manifest that a digest
// names, with the tokens that registries demand, from their mirrors first. It also knows where registries.conf places
// an artifact, what registries answer, and the files in which nodes and people keep credentials.
//
// In: addresses, artifacts, proxies, CAs, credentials, the texts of registries.conf. Out: answers, and bodies that fail
// if the server stalls. Never: a downloaded file on disk; a redirect from https to http, a registry without TLS,
// credentials for another host than the registry and its token service; the query of an address or a secret in an
// error.
package download
