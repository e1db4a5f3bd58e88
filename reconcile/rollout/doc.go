// Package rollout decides which node of a pool takes the pool's config next, and says in words why each other node waits.
//
// A node belongs to a pool (Pools.For), a pool has a budget (MaxUnavailable), a node is judged by what it reports (the
// methods of Node), and Next turns all of that into a Wave. Nothing is remembered between two calls: whoever crashed
// in between continues by calling Next again.
//
// In: pools and nodes as read from the API, and now. Out: a Wave, counts, a node's pool.
// Never: reads a clock, writes to a node, or makes more nodes unavailable than the pool's budget has room for.
package rollout
