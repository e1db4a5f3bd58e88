// Package pointer writes pointer configs: a small Ignition config with the URL of the real config, the CA to trust and
// a token. A pointer config fits into the user data of every cloud.
//
// In: a pool, the server's URL, certificates of CAs, a token, a version of Ignition. Out: the pointer config as
// Ignition or as a Butane document that transpiles to the same config, or every reason why there is none. Never: the
// network, a file, a clock.
package pointer
