// Package detail makes the pages about one node, one commit, a comparison and a search.
//
// In: a viewer's objects and reads, and what a user asks for. Out: pages. Never: a read with other rights than the
// viewer's; a write.
package detail
