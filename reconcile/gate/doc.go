// Package gate has the health gates of a rollout: whether a DaemonSet's pod on a node is ready, whether the answer to a
// query is true, whether a job succeeded. The pure part evaluates objects and answers, and describes the job that a
// gate starts; the Evaluator reads them.
//
// In: DaemonSets, Pods, Jobs, answers of Prometheus, the time. Out: an answer with a reason, and the Jobs of gates.
// Never: a decision about a rollout.
package gate
