// Package up starts a local control plane with Bunsen, shows the progress, keeps it
// running, and stops it.
//
// A start has these steps, in order: lock the data directory, stop leftover processes, check programs and ports, create
// keys and the repository, start etcd and the API server, then the other upstream programs, apply Bunsen's objects,
// start Bunsen's programs. One data directory has the whole state, and the same command continues with this state.
//
// In: flags. Out: running processes, a data directory, text for a user; an exit code: 0 stopped by a signal, 1 a step
// failed, 2 invalid flags, 3 a port is in use. Never: its own listening socket; a program that listens beyond loopback.
package up
