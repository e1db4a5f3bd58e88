// Package cluster runs Kubernetes on real hosts, for tests: a control plane, and nodes with containerd and a real
// kubelet in the hosts of package lab. Bunsen's own images run as pods on it.
//
// In: the programs in BUNSEN_BIN, a kubelet, and the packages of the lab. Out: a cluster that ends with its test.
// Never: a connection to the internet, or an image of another registry than the test's own.
package cluster
