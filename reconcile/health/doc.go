// Package health reads when the daemon of each node last reported.
//
// In: MachineConfigNodes. Out: the last heartbeat of each node's daemon. Never: a watch, because heartbeats change all
// the time.
//
// The part heartbeat reports that this replica of the controller runs, whether it leads, and when it last listed the
// repositories.
//
// In: the replica's own Lease. Out: the same Lease, and the readiness of the process. Never: leader election.
//
// The part metrics exposes the state of the cluster and of the controllers to Prometheus.
//
// In: objects from the manager's cache, and reports of the controllers. Out: metrics. Never: a write to the cluster.
//
// The part summary has the controller that writes the state of Bunsen on the whole cluster, the BunsenStatus.
//
// In: pools, GitSources, Nodes, the Leases of controllers and servers, and the heartbeats of daemons. Out: the
// BunsenStatus `cluster`. Never: a text or a condition of its own, because package reconcile/status has all texts and
// conditions.
package health
