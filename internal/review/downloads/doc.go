// Package downloads says what the nodes of a pool download for a new config, and how much that is.
//
// In: two configs, the sizes of files of the content store. Out: a list of downloads. Never: the network, the sizes of
// files that no repository and no cluster has.
package downloads
