// Package trustfile is the table of the files that nodes get beside their config. The server chooses paths from it, the
// daemon checks an answer against it, and the validation of disruption policies knows the paths.
//
// In: paths, contents. Out: which paths, modes and contents are valid, and why others are not. Never: I/O, the clock; a
// secret in an error.
package trustfile
