// Package membership decides which pools a node belongs to, by the node selectors of the pools. With it, the rollout
// assigns configs, and the server decides which configs a node may read.
//
// In: the pools of a cluster; the name and the labels of a node. Out: the node's primary pool, and the pools that it
// inherits from. Never: I/O; what a node reports about itself.
package membership
