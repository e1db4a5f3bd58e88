// Package host defines the interfaces through which the daemon reads and changes a machine, and their data types. The
// interfaces have two implementations: mcd/linux for real machines, and mcd/host/hosttest for simulated machines.
// One conformance suite tests the implementation for Linux and the simulated implementation.
//
// In: nothing. Out: interfaces, the observed State, Step and the journal's Record; parsers of [Install] sections,
// presets and the account database. Never: I/O, a decision; contents of files or password hashes in a Step (it has
// their digests; the Store has the data).
package host
