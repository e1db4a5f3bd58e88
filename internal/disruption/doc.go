// Package disruption compares two configs: what differs, what a running node cannot apply, and which actions each
// difference costs. Controller, daemon and review all ask it, so a review foretells what nodes will do. It also knows
// which changes of registries.conf running pods survive.
//
// In: two machineconfig.Config values and a Policy. Out: Changes, Refusals, a Decision. Never: the state of a node, any
// I/O.
package disruption
