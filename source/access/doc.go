// Package access checks the data of Secrets: which keys they may have, and to which hosts their credentials may
// go.
//
// In: a Secret's data and the address of a repository. Out: errors that say what to write. Never: a value of a Secret
// in an error.
//
// The part dial connects to the hosts of sources, with the certificates of a Secret and through the proxy of a source.
//
// In: the data of Secrets. Out: HTTP transports, clients and connections. Never: a redirect that is followed; a value
// of a Secret in an error.
package access
