// Package cluster reads what the server needs from an API server and follows its changes: pools, rendered configs,
// tokens. It also counts the uses of tokens, creates bootstrap tokens, and reports in a Lease that this server runs.
// The bootstrap tokens of an hour are shared out among clients, so that one of them cannot take all.
//
// Pools whose nodes have configs of their own need more: which of them a node may run follows from the pool and from
// what the node reports.
//
// In: objects of an API server, or their cached copies while it does not answer. Out: the served configs, the known
// tokens, a bootstrap token for each machine, a Lease. Never: a request that waits for a watch; a write to a pool, a
// config or a token's spec; a token in a log.
package cluster
