// Package tree turns a directory of Butane files, as users compile them with Butane itself, into a config repository
// that gives machines the same content.
//
// In: the directory, the directory of its local files, and a pool. Out: the files of a repository, the result for each
// Butane file, and findings with file and line. Never: a symbolic link, a path outside the two directories, a config
// from the network.
package tree
