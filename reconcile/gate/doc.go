// Package gate evaluates the health gates of a rollout: whether a DaemonSet's pod on a node is ready, whether the
// answer to a query is true, and whether a job succeeded. Package gate also describes the job that a gate starts.
//
// In: objects and answers that were read before, and the current time. Out: an answer with a reason. Never: a read or a
// write of an object, or a request.
package gate
