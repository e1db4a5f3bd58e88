// Package transpile turns a repository's tree into fragments: it finds each pool's overlay, builds it, turns its
// documents into MachineConfigs and keeps where everything came from.
//
// In: a source.Tree. Out: fragments, cluster objects and a Report. Never: the network, a clock, anything outside the
// tree; a fatal report means that no fragment of the commit may be applied.
package transpile
