// Command table runs the programs in bench/ one after another, each to its end, and prints one table of their figures:
// what, size, now, beside what, goal, met or not. A program that fails is a row of the table, and an error at the end.
// The figures stay in a file, from which it writes docs/performance.md.
//
// In: names of programs; the programs, which it builds. Out: their output, the table, the file, the page. Never: a
// judgement of a figure, which is measure's.
package main
