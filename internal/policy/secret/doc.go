// Package secret masks secrets in texts: values and lines, never whole files.
//
// In: the path and the content of a file, or a text without a path. Out: the same lines with (hidden) in place of each
// secret, and the rules that matched. Never: any I/O; a line more or less than the input has.
package secret
