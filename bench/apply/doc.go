// Command apply measures how a node takes a config's files: it looks at what is there, plans, and writes with a journal, on
// a real disk, beside the floors that no program can go below when it makes as many files durable.
//
// In: flags. Out: a table on standard output. Never: files outside of a scratch directory, a network, a cluster.
package main
