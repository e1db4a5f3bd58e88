// Package desired reads the state that a config requires of a machine: paths, units, users, groups and the OS. The
// package replaces account names by the machine's numbers. Package desired marks values that the config does not set,
// so that mcd/plan leaves them unchanged.
//
// In: a config, the machine's accounts. Out: State, with refusals of settings that this machine does not support.
// Never: any I/O, the present state of a path, a decision about steps.
package desired
