// Package health is what Bunsen knows and tells about itself: the heartbeats of the daemons, the Lease of this replica
// and the readiness of its process, metrics for Prometheus, and the BunsenStatus `cluster`.
//
// Heartbeats are read every now and then, without a watch, because they change all the time.
//
// In: objects from the manager's cache, Leases, MachineConfigNodes, reports of the controllers. Out: the replica's own
// Lease, the BunsenStatus, metrics, the nodes whose daemon is silent. Never: leader election; a text or condition of
// its own, which package status has.
package health
