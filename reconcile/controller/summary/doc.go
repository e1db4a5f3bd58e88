// Package summary has the controller that writes the state of Bunsen on the whole cluster, the BunsenStatus.
//
// In: pools, GitSources, Nodes, the Leases of controllers and servers, and the heartbeats of daemons. Out: the
// BunsenStatus `cluster`. Never: a text or a condition of its own, because package reconcile/status has all texts and
// conditions.
package summary
