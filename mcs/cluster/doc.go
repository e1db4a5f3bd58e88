// Package cluster keeps the shelf filled from an API server, and does there what a new machine needs: it counts the uses of
// tokens and mints bootstrap tokens. It also tells the cluster that this server is there.
//
// In: pools, rendered configs and tokens of an API server, or what was kept of them while it is away. Out: offers on the
// shelf, the tokens there are, a bootstrap token per machine, a Lease. Never: a request that waits for a watch, a write to a
// pool, a config or a token's spec, a token in a log.
package cluster
