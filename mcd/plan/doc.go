// Package plan computes, as data, the steps that bring a machine from one config to another. The daemon applies the
// steps and undoes them after a failure; a review prints them. Without drift, the plan of a config to itself is empty.
//
// DesiredOf reads the state that a config requires: paths, units, users, groups and the OS, with the numbers that the
// machine gives its accounts, and marks for values that the config does not set. Transition.Place finds the place of
// each path, which is its directory without links, and its last name, so that no step removes under one spelling what
// another keeps. Scope is the part of the machine that is observed. Target is the state after the update, and Diff
// returns the steps from the observed state to it.
//
// After an update, a machine is as if it had first booted with the new config. So the daemon stores what a config
// replaces, and restores it when no config names the path, unit or account any more:
//
//   - Originals of files and links, and mode and owner of directories, are below host.OrigDir. The original of a file
//     of the first config is the image's file below /usr/etc, if there is one; that of a file with appended parts is
//     the content before them. A directory that the daemon made goes when it is empty. A file that exists is replaced
//     only if the config sets overwrite, because a new machine with that file would not boot.
//   - host.AccountsPath has users and groups. An account that a config made goes, without its home directory. The
//     number of an existing account never changes, and that of a removed user stays reserved for this user.
//   - host.UnitsPath has whether a unit was enabled before a config decided about it. A drop-in alone decides nothing.
//     A new unit, and a unit of the first config that no config names any more, gets its preset.
//
// Diff keeps this order, and mcd/apply relies on it:
//
//  1. The journal is durable before the first step, and what the steps replace is stored before the journal.
//  2. Pods are drained before the first step of a plan of the level drain or above.
//  3. The OS is staged before files change: that fails most often, and is undone easily.
//  4. Units that are removed, or whose file changes, are disabled. Then paths are removed, children first. Then users
//     and groups change. Then paths are written, parents first and hard links last. Then units are enabled.
//  5. Actions (daemon-reload, reload, restart) follow, in the order of the decision and with its repetitions.
//  6. The record of the config in force is written last.
//  7. A reboot follows. After it, the running OS is compared with the staged one before the journal is removed.
//
// The inverse of a plan keeps this order, with the changes of step 4 in reverse, and hard links last again.
//
// In: configs, the machine's accounts, the observed State, a disruption.Decision. Out: Desired, Scope, Plan, its text
// and its refusals. Never: I/O, contents of files in a Plan or its text.
package plan
