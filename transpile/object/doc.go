// Package object reads an object's YAML into its type, strictly, and says at which line it is none.
//
// In: one object as YAML, with its places. Out: the typed object, or findings. Never: a default, a field that the type
// does not have, the words of a decoder that quote what stands in a document.
package object
