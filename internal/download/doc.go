// Package download requests files from HTTP servers and OCI registries.
//
// In: addresses, proxies, certificates of CAs, credentials for registries and their mirrors. Out: answers, and bodies
// that fail if the server stalls. Never: a downloaded file on disk, a redirect from https to http, the query of an
// address in an error.
package download
