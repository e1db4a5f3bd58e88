// Command transpile measures the way from a tree of files to fragments: one Butane document of many files, many documents,
// and an overlay that patches each of them; from nothing, after one change, and when nothing changed. Butane and kustomize
// do the same in turn with it, in the same process.
//
// In: flags. Out: tables on standard output. Never: a network, a cluster.
package main
