// Package measure is what the programs of bench/ share: what something costs, the median of several runs, and one form of
// table that puts each figure beside its goal and beside what others need for the same.
//
// In: functions to run, goals, figures of peers. Out: samples, tables. Never: a clock that decides whether a test passes.
package measure
