// Command apply measures how a node takes a config's files: it looks at what is there, plans, and writes with a journal, on
// a real disk, beside the floors that no program can go below when it makes as many files durable, in directories that are
// not there before where the files are new. The floors promise nothing else: what the daemon does so that an update can be
// taken back, it does on top: it reads and keeps what is replaced, and syncs the journal before the first file, then its
// directory, and that again when it goes.
//
// In: flags. Out: a table on standard output. Never: files outside of a scratch directory, a network, a cluster.
package main
