// Package keyservice asks a key service of SOPS, which the program sops runs with `sops keyservice`, to decrypt data
// keys. It speaks the few bytes of gRPC and protobuf that one method needs, over the HTTP/2 of the standard library.
//
// In:    the address of a service on this host, recipients with encrypted data keys
// Out:   data keys, which it keeps in memory
// Never: encrypts, connects to another host, or shows a data key
package keyservice
