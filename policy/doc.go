// Package policy says what differs between two configs, what cannot be changed in place, and what each difference
// costs a running node. The controller, the daemon and the review share it, so a forecast and the deed cannot differ.
//
// In: two machineconfig.Config values and a Policy. Out: Changes, Refusals, a Decision. Never: the state of a node,
// any I/O.
package policy
