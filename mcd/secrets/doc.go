// Package secrets decides which contents of secrets a machine takes and keeps, and puts them into configs.
//
// In: configs, the server's answer, the machine's copy. Out: configs with contents, the new copy. Never: I/O, contents
// in an error, or their length or digest.
package secrets
