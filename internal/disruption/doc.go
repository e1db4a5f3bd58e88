// Package disruption compares two configs: their differences, the parts that a running node cannot apply, and the
// actions that each difference needs. The controller, the daemon and the review use this package, so that a review
// forecasts what nodes will do.
//
// In: two machineconfig.Config values and a Policy. Out: Changes, Refusals, a Decision. Never: the state of a node; any
// I/O.
//
// The part registries decides whether a change of registries.conf or one of its drop-ins is safe for running pods.
//
// In: the files of two configs. Out: the reason why the change is unsafe. Never: any I/O.
package disruption
