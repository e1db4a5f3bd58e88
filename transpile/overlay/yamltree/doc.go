// Package yamltree reads YAML strictly and tracks which file and line wrote each value.
//
// In: the text of one file, or of a block in it. Out: a tree of nodes with positions, or findings. Never: aliases,
// repeated keys, more than one document.
package yamltree
