// Command render measures only rendering, from MachineConfigs to a rendered config: with empty caches, after a change
// of one MachineConfig, and without a change.
//
// In: flags. Out: tables on standard output, with the machine-config-operator's merge beside it. Never:
// files, a network, a cluster.
package main
