// Package content gives new machines files of the content store and of registries through the server. Check decides
// about grants: a signed text that names one file, a pool and an end. Copies keeps the files in a directory of bounded
// size, and serves one only after the hash of the whole was verified.
//
// In: the host that a machine asked for, the server's certificate, keys, times; artifacts and names of files. Out:
// addresses, grants, open files. Never: a part of a file, a key in an error.
package content
