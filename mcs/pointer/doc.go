// Package pointer writes what a machine is handed at birth: an Ignition config that only says where its real config is,
// whom to believe, and by which token to ask. It is small enough for the user data of every cloud.
//
// In: a pool, the server's URL, certificates of CAs, a token, a version of Ignition. Out: the pointer config as Ignition or
// as a Butane document that transpiles to it, or every reason why there is none. Never: the network, a file, a clock.
package pointer
