// Package message turns error messages of libraries into advice on what to write.
//
// In: a message of Ignition, Butane, a YAML parser or a decoder, and the value that the message is about. Out: what is
// wrong and what to write instead; a message that is not in the table does not change. Never: a quotation of file
// contents, keys or units, which may contain secrets.
package message
