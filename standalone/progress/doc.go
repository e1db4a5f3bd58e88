// Package progress shows a person what is going on: one live line on a
// terminal, one plain line per finished step elsewhere.
//
// In: steps with their names; lines.
// Out: text on one writer, from any goroutine.
// Never: decides anything; keeps what it printed.
package progress
