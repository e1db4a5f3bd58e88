// Package syntax finds words, keys and values in a line of a text.
//
// In: a line and an offset. Out: offsets and parts of the line. Never: any I/O; a decision on whether a part is a
// secret.
package syntax
