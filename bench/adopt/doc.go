// Command adopt measures what grows with the number of MachineConfigs of a cluster: importing a dump of them as a config
// repository, and saying of everything in a rendered config which line wrote it.
//
// In: flags. Out: tables on standard output. Never: a network, a cluster.
package main
