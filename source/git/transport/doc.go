// Package transport speaks version 2 of git's protocol with a server, over https and ssh.
//
// A Dialer opens sessions with the credentials of a Secret. The package encodes the requests that a session sends,
// and decodes what the server returns, as gitprotocol-v2(5) and gitprotocol-common(5) define it: go-git reads objects
// and packs, but does not implement version 2.
//
// In: the address of a repository, a Secret, the wanted refs and objects. Out: sessions, refs, and the stream of a
// pack. Never: credentials to a host that the Secret does not name; a redirect to another host that is followed; more
// of an answer in memory than one packet; a part of an answer in an error.
package transport
