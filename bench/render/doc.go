// Command render measures rendering alone: MachineConfigs in, a rendered config out; from nothing, after one of them
// changed, and when nothing did.
//
// In: flags. Out: tables on standard output, with what the machine-config-operator needs for the same. Never: files, a
// network, a cluster.
package main
