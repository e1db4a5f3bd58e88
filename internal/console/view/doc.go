// Package view draws the pages of the console as HTML: the overview, a pool, a node, a commit, a comparison, a search.
// A page is a tree of regions; RegionsSince finds those that differ from what a browser has, so that only these are
// sent again.
//
// Pages about one node, commit or comparison need objects that no watch keeps; their viewer reads them with the user's
// own rights, and a cache holds what it made of them.
//
// In: the data that the command line prints too, what a user asks for, and now. Out: pages and regions. Never: a write,
// or a read with other rights than the viewer's; a decision about the cluster; text of a user that is not escaped; a
// secret.
package view
