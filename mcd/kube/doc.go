// Package kube speaks to the cluster for one node, with the rights of its kubelet. Its types implement the interfaces
// that the agent declares.
//
// A Connection makes a Client when a kubeconfig is usable, and makes another one when the node is renamed or the
// credentials change. It reads and writes the annotations of the Node, reads policies, watches the Node and the images
// that it pins. Configs, secrets and files come from the machine-config-servers; configs also from the API server.
// Recorder writes events, StatusPublisher the MachineConfigNode, and Heartbeat the daemon's report, which on a node
// with etcd says whether its members are healthy. If the API server gives no usable answer, the error wraps
// report.ErrUnreachable; APIHealth says what such an error means for the health check. Every call has a time limit.
//
// In: what loads a rest.Config, the node's name, saved addresses of servers, files of the node with the certificates of
// etcd. Out: calls, answers, errors. Never: another node, evictions, the machine's disk, a change of etcd, a key or
// certificate in a text, a decision about what to do.
package kube
