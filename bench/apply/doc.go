// Command apply measures how a node applies a config's files on a real disk: it compares, plans, and writes with a
// journal. It also measures lower limits (floors): the fastest way to write as many files durably. New files are in new
// directories. A floor offers no rollback. For that, the daemon also stores the replaced files. It syncs the journal
// and its directory before the first file, and that directory again after the journal's removal.
//
// In: flags. Out: a table on standard output. Never: files outside of a scratch directory, a network, a cluster.
package main
