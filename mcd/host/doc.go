// Package host is the contract of a machine: the ports through which the daemon reads and changes it, and the plain data
// that passes through them. Two implementations stand on it, the real one (mcd/host/linux) and the simulating one
// (mcd/host/hosttest), and one conformance suite runs on both.
//
// In: nothing. Out: interfaces, the observed State, Step and the journal's Record; how [Install] sections, presets and the
// account database read as text. Never: I/O, a decision; contents of files and hashes of passwords in a Step (they travel
// as digests, and wait in the Store).
package host
