// Package nodemark decides on the writes to nodes that change no config: labels, taints, and which config a node gets
// next, so that it downloads the content of the config.
//
// In: the classified nodes of a pool and which of them are assigned a config now. Out: Marks, why a node waits for
// content. Never: an assignment, a clock.
package nodemark
