// Package metrics exposes the state of the cluster and of the controllers to Prometheus.
//
// In: objects from the manager's cache, and reports of the controllers. Out: metrics. Never: a write to the cluster.
package metrics
