// Package textdiff compares texts line by line, with limited time and memory for any text.
//
// In: two texts or lists of lines. Out: a shortest script of edits, or a unified diff without its header. Never: I/O;
// detection of secrets: callers mask them first.
package textdiff
