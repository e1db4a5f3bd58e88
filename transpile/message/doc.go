// Package message says what to write instead of what a library rejected.
//
// In: a message of Ignition, Butane, a YAML parser or a decoder, and the value that it is about.
// Out: what is wrong and what to write instead. A message that the table does not know stays as it is.
// Never: quotes file contents, keys or units, which may hold secrets.
package message
