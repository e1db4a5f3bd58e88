// Package lostanswer has proxies that deliver every request, and drop the answers of those that a test chooses: one in
// front of a D-Bus socket, one in front of an API server.
//
// In: a socket or the config of a client, and which answers are lost. Out: where a client connects instead. Never: a
// request that was not delivered; a request that the other side had no time to carry out.
package lostanswer
