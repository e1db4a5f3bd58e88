// Package documents reads the documents of a repository. Package documents finds the kind of each document, the lists
// that patches merge by key, and the parts that kustomize would lose or refuse.
//
// In: files of a tree. Out: documents with the line of each value, or findings. Never: patches.
package documents
