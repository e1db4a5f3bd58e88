// Package tracing finds a node's rendered config on the cluster and the lines of the repository that set each item of
// it.
//
// In: a cluster, a clone of the source's repository. Out: a trace of package inspect/trace. Never: a change to the
// cluster or the clone.
package tracing
