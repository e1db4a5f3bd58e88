// Package driftscan scans a machine for drift: it compares the machine with its config in force, repairs and reports
// what package drift decides, and keeps the state between scans.
//
// In: a host.Host, the config in force, a Cluster, a Watcher. Out: repairs, the drift annotation, events, files below
// Dir; what the last scan found, for commands on the node. Never: an update, the contents of a secret in a report.
package driftscan
