// Package inspect turns a cluster's objects into what a person reads: the one-screen status, lists, and the way back
// from a node to the line of the commit that made it so.
//
// In: API objects and now. Out: tables and blocks of text, and the same as data. Never: reading the cluster or a
// repository itself; a judgement that the controllers did not write down.
package inspect
