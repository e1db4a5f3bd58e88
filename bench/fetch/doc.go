// Command fetch measures what a git source costs beside the git program: polls, the first fetch, a fetch after one
// changed file. Both run as processes of their own, in turn, against one server (git http-backend on loopback). It
// prints CPU time, memory, received bytes and the ratios. It also fetches repositories that are made to need much
// memory.
//
// In: flags; the git program. Out: tables on standard output. Never: a network beyond loopback, a cluster.
package main
