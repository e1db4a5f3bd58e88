// Package content decides how a new machine reads files of the content store and of registries from the server: at
// which address, with which CA, and with which grant. A grant is a signed text that names one file, a pool and an end.
//
// In: the host that a machine requested, the server's certificate, keys, times. Out: addresses, grants, and whether a
// grant is valid. Never: I/O, a clock, a key in an error.
package content
