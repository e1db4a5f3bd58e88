// Package variants decides which rendered configs a node may run, in pools whose nodes have configs of their own.
//
// In: pools, rendered configs, what a node reports. Out: names of configs, refusals. Never: I/O.
package variants
