// Command rollout measures the controller while it rolls a config out to thousands of nodes. It uses the real etcd and
// kube-apiserver, and the controller in its own process. It simulates the machines and their daemons, which follow the
// annotation protocol exactly and reboot at once. It prints the controller's CPU time, memory and API requests, its
// writes to a node with and without a RolloutPolicy, and the cost of one decision.
//
// In: flags; the binaries of bin/. Out: tables on standard output. Never: a network beyond loopback.
package main
