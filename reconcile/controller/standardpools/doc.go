// Package standardpools creates and restores the pools that every cluster has: master and worker.
//
// In: MachineConfigPools. Out: the selectors of the two pools, unless a user or a source sets them. Never: a write to
// a pool of a source.
package standardpools
