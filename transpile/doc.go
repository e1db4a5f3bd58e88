// Package transpile turns a repository's tree into fragments: it builds each pool's overlay, turns its documents into
// MachineConfigs and records the origin of every value.
//
// In: a source.Tree. Out: fragments, cluster objects and a Report. Never: the network, a clock, anything outside the
// tree; fragments of a tree whose report is fatal.
package transpile
