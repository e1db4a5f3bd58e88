// Command nodes measures a pool whose nodes have configs of their own: one document, and a table with a row for each
// node. It uses the real etcd and kube-apiserver, a repository, and the controller in its own process. It simulates the
// machines and their daemons. It prints objects, bytes, memory, times and writes for the first commit, for one changed
// row, and for a changed document.
//
// In: flags; the binaries of bin/; git. Out: tables on standard output. Never: a network beyond loopback.
package main
