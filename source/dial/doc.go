// Package dial connects to the hosts of sources, with the certificates of a Secret and through the proxy of a source.
//
// In: the data of Secrets. Out: HTTP transports, clients and connections. Never: a redirect that is followed; a value
// of a Secret in an error.
package dial
