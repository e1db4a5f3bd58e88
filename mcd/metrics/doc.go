// Package metrics counts what the daemon lives through and serves it to whoever asks on the machine itself, under the
// names that the original daemon has, so that alerts and dashboards go on working.
//
// The text format is written here: it is a page of code, and the usual library would be a tenth of the whole binary.
//
// In: what the agent tells. Out: the Prometheus text format over HTTP. Never: an address that is not loopback, the cluster,
// a goroutine or timer of its own while nobody asks, the contents of a file.
package metrics
