// Command transpile measures the steps from a tree of files to fragments: one Butane document of many files, many
// documents, and an overlay that patches each of them. The states are empty caches, one change, and no change. For
// comparison, it runs Butane and kustomize in turn with it, in the same process.
//
// In: flags. Out: tables on standard output. Never: a network, a cluster.
package main
