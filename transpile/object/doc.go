// Package object decodes an object's YAML strictly into its type and reports the line of each error. The package also
// collects the config that a document describes.
//
// In: one object as YAML, with its positions. Out: the typed object and a config, or findings. Never: a default, a
// field that the type does not have, an error of a decoder that quotes a document.
package object
