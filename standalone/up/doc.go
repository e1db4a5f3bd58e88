// Package up starts a whole local control plane with Bunsen on it, in order,
// says how far it is, keeps it running, and stops it.
//
// The order: lock, what an earlier run left, what is missing, ports, keys,
// repository, etcd and API server, the other upstream parts, Bunsen's objects,
// Bunsen's programs. Everything kept lies in one data directory; the same
// command goes on where the last one ended.
//
// In: flags.
// Out: running processes, a data directory, text for a person; an exit code:
// 0 stopped as asked, 1 a step failed, 2 wrong flags, 3 a port is taken.
// Never: listens itself, or beyond loopback through anything that it starts.
package up
