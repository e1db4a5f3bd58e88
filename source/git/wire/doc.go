// Package wire encodes requests of git's protocol version 2, and decodes the responses of a server.
//
// The formats are those of gitprotocol-v2(5) and gitprotocol-common(5). The library go-git reads objects and packs, but
// does not implement version 2.
//
// In: the wanted refs and objects, the bytes of a server. Out: bytes for the server, refs, and the stream of a pack.
// Never: a connection; more of a response in memory than one packet.
package wire
