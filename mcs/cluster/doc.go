// Package cluster keeps what the server serves up to date from an API server. It also writes there: it counts the uses of
// tokens, creates bootstrap tokens, and reports in a Lease that this server runs.
//
// In: pools, rendered configs and tokens of an API server, or their cached copies while it is unreachable. Out: the served
// configs, the known tokens, a bootstrap token for each machine, a Lease. Never: a request that waits for a watch, a write to
// a pool, a config or a token's spec, a token in a log.
package cluster
