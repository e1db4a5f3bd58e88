// Package rollout decides which node of a pool takes the pool's config next, and says in words why each other node waits.
//
// A node belongs to a pool (Pools.For), a pool has a budget (MaxUnavailable), a node is judged by what it reports (the
// methods of Node), and Next turns all of that into a Wave. A Roster keeps the nodes sorted out as they change, so that a
// decision does not walk them all; it decides as somebody who reads them anew.
//
// decide (next.go) is the whole order of things, and each step of it has a file: what is remembered (record.go, forgive.go),
// whether the rollout ends before its time (verdict.go), how much room there is (budget.go), which step is under way
// (steps.go), what stands in the way (hold.go), and who is told (pick.go). What a node is to all of these is one word per
// question (kind.go). Words for people are in blocks.go, explain.go and words.go.
//
// All that outlives a decision is in Wave.Record. Whoever crashed in between continues by calling Next again.
//
// In: pools and nodes as read from the API, a pace, a record, and now. Out: a Wave, counts, a node's pool, why it waits.
// Never: reads a clock, writes to a node, or makes more nodes unavailable than each budget has room for.
package rollout
