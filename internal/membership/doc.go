// Package membership decides which pools a node belongs to, by the node selectors of the pools. The rollout uses this
// package to assign configs, and the server to decide which configs a node may read.
//
// In: the pools of a cluster; the name and the labels of a node. Out: the node's primary pool, and the pools that it
// inherits from. Never: I/O; data that a node reports about itself.
package membership
