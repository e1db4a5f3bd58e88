// Package nodetable has what a repository says about single nodes of a pool: a table of facts, the documents that use
// the facts, and the documents of one node. It replaces each fact in a document by its value, after the document was
// parsed, so that no value can change the structure of a document.
//
// In: the spec of a MachineConfig, and facts. Out: the MachineConfig that stores a table, and the specs of one node.
// Never: a merge, I/O.
package nodetable
