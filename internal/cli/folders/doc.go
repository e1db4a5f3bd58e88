// Package folders opens config repositories, as directories or revisions, and writes new directories.
//
// In: paths, git revisions. Out: trees, their rendered pools, files below a new directory. Never: a file outside the
// directory that the user named; a cluster.
package folders
