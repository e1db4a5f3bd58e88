// Package classify decides whether a key names a secret, and whether a value looks like a secret.
//
// In: a key or a value of a text. Out: how certain a key is, and predicates of values. Never: any I/O; the text around
// the key and the value.
package classify
