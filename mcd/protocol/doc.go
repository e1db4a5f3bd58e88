// Package protocol is what a Node and the events about it say between a daemon and its cluster: the annotations of the
// machine-config API as one value, and the words that tell one event from another.
//
// In: annotations. Out: Assignment, Reason, text that fits on one line. Never: a cluster, a clock, a decision.
package protocol
