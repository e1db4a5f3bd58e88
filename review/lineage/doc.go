// Package lineage says who wrote each attribute of each item of a rendered config: the MachineConfig and the line of the
// repository, and before them all those whom they replaced. It merges nothing by rules of its own: each item is folded
// again with Ignition's Merge, which keeps a transcript, so that the answer cannot differ from what is rendered.
//
// In: the MachineConfigs of a pool as layers in the order of merging, each with its origins. Out: Items, as text or JSON.
// Never: a value that the caller's Hide hides, a password; commits (the caller adds them); any I/O.
package lineage
