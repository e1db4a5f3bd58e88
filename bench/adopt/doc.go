// Command adopt measures two tasks whose cost grows with the number of a cluster's MachineConfigs: the import of a dump
// as a config repository, and the lineage of everything in a rendered config.
//
// In: flags. Out: tables on standard output. Never: a network, a cluster.
package main
