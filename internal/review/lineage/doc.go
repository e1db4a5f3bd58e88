// Package lineage finds the writer of each attribute of each item of a rendered config: the MachineConfig and the line
// of the repository, and all earlier writers that they replaced. Package lineage has no rules for merging: it merges
// each item again with Ignition's Merge, which records the origin of each value, so that the answer cannot differ from
// the rendered config.
//
// In: the MachineConfigs of a pool as layers in the order of merging, each with its origins. Out: Items, as text or
// JSON. Never: a value that the caller's Mask hides, a password; commits, which the caller adds; I/O.
package lineage
