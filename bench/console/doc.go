// Command console measures the console with a pool of thousands of nodes: the first page, changes on open streams,
// memory, and a reader that does not read. The console is a process of its own beside a real API server, and its users
// have the rights of a viewer only.
//
// In: flags; etcd and kube-apiserver. Out: tables on standard output. Never: a network beyond loopback, a cluster of
// the user.
package main
