// Package measure has the common code of the programs in bench/: the cost of a task, the median of several runs,
// figures, and tables. A figure has its goals and its peers, which did the same in the same run, and says whether it
// meets the goals.
//
// In: functions to run, goals, peers. Out: samples, figures, tables. Never: a clock that decides whether a test passes.
package measure
