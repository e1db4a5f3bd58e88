// Package measure has the common code of the programs in bench/: the cost of a task, the median of several runs, and
// tables. A table shows each figure with its goal and with the figures of other programs.
//
// In: functions to run, goals, figures of peers. Out: samples, tables. Never: a clock that decides whether a test
// passes.
package measure
