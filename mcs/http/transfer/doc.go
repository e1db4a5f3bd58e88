// Package transfer sends a file to a client over HTTP: the whole file, or one part of it. A client gets more time while
// it reads, and only then.
//
// In: a request, an open file. Out: the answer, and how much of the file the client took. Never: a decision about who
// may read the file.
package transfer
