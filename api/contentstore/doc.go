// Package contentstore decides which files of a config are too large for an object of the API server, and how they are
// named in place of their contents: by their hash. The bytes are in an OCI registry, or with the server.
//
// In: configs, hashes. Out: configs that fit, the files that left them, tags. Never: I/O, the clock; the contents of a
// file in an error.
package contentstore
