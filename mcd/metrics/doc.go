// Package metrics counts events of the daemon and serves them to clients on the same machine. The package uses the
// metric names of the machine-config-operator's daemon, so that alerts and dashboards continue to work.
//
// The package writes the text format itself, because the usual library would be a tenth of the whole binary.
//
// In: reports of the agent. Out: the Prometheus text format over HTTP. Never: an address that is not loopback, the
// cluster, a goroutine or timer without a request, the contents of a file.
package metrics
