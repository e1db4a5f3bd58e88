// Package terminal lays out text for users: tables, lines under labels, coloured lines cut to the width of a terminal.
//
// In: texts, which may come from hostile nodes and commits, and the size of a terminal. Out: strings without terminal
// control sequences except colours. Never: I/O, the clock, the meaning of a text.
package terminal
