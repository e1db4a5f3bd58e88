// Package draining is the controller that cordons, drains and uncordons nodes at the request of their daemons, as
// package drain decides.
//
// In: requests on Nodes, Pods, their budgets. Out: evictions, cordons, acknowledgements on Nodes. Never: a decision of
// its own.
package draining
