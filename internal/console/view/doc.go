// Package view draws the pages of the console as HTML.
//
// In: the data that the command line prints too, and now. Out: pages, and regions of pages. Never: I/O; a decision
// about the cluster; text of a user that is not escaped.
package view
