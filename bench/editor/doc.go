// Command editor measures `bunsen lsp` as an editor sees it: the time from a keystroke until its problem is shown, and
// the time of each kind of answer, in repositories with many documents.
//
// In: flags; the program, which it builds if none is given. Out: a table on standard output. Never: a network, a
// cluster.
package main
