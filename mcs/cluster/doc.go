// Package cluster reads the configs and tokens that the server needs from an API server, and follows their changes.
// Package cluster also writes to the API server: it counts the uses of tokens, creates bootstrap tokens, and reports in
// a Lease that this server runs.
//
// In: pools, rendered configs and tokens of an API server, or their cached copies while the API server is unreachable.
// Out: the served configs, the known tokens, a bootstrap token for each machine, a Lease. Never: a request that waits
// for a watch, a write to a pool, a config or a token's spec, a token in a log.
package cluster
