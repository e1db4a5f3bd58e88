// Command content measures what a large file of a repository costs a cluster: a commit without the file, a commit with
// it, another version of the file, and a small change beside it. It uses the real etcd and kube-apiserver, a
// repository, and the controller in its own process. The file is random bytes, which no compression makes smaller.
//
// In: flags; the binaries of bin/; git. Out: a table on standard output. Never: a network beyond loopback.
package main
