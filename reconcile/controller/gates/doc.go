// Package gates reads what the health gates of a pool depend on, as package gate evaluates it.
//
// In: DaemonSets, Pods, Jobs, answers of Prometheus. Out: whether each gate is open, and the Jobs of gates. Never: a decision of its own.
package gates
