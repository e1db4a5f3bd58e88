// Package nodefacts reads a table of facts about nodes, with the position of each value.
//
// In: the text of a file nodes.yaml. Out: the rows, or findings. Never: a document, the file system.
package nodefacts
