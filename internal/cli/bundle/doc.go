// Package bundle has the verb that collects a support bundle from a cluster.
//
// In: flags, a cluster. Out: one tar.gz and progress. Never: a text that package support has not masked; a Secret.
package bundle
