// Package gates reads the objects and the query results that the health gates of a pool depend on. Package gate
// evaluates the answers of gates.
//
// In: DaemonSets, Pods, Jobs, answers of Prometheus. Out: whether each gate is open, and the Jobs of gates. Never: a
// decision of its own.
package gates
