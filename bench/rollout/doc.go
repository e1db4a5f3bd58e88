// Command rollout measures the controller while it rolls a config out to thousands of nodes: etcd and kube-apiserver as they
// are, the controller as a process of its own, and machines whose daemons are simulated, all in this process, which speak
// the annotation protocol to the letter and reboot at once. It prints what the controller takes of the processor and of memory,
// what it asks of the API server and how often it writes to a node, with and without a RolloutPolicy, and what one decision
// costs.
//
// In: flags; the binaries of bin/. Out: tables on standard output. Never: a network beyond loopback.
package main
