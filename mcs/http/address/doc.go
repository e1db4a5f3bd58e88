// Package address reads the addresses of clients in one form, and decides which addresses are allowed.
//
// In: addresses of connections, allowed networks. Out: addresses, sources, answers. Never: I/O.
package address
