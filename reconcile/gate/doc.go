// Package gate evaluates the health gates of a rollout: whether a DaemonSet's pod on a node is ready, whether the
// answer to a query is true, and whether a job succeeded. It also describes the job that a gate starts.
//
// In: objects and answers that were read before, and the current time. Out: an answer with a reason.
// Never: reads or writes an object, or sends a request.
package gate
