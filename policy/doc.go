// Package policy says what differs between two configs, what cannot be changed in place, what each difference costs a
// running node, and what contents nobody shall print. The controller, the daemon and the review share it, so a forecast
// and the deed cannot differ.
//
// In: two machineconfig.Config values and a Policy; a content. Out: Changes, Refusals, a Decision; a verdict. Never: the state of a node,
// any I/O.
package policy
