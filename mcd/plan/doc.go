// Package plan computes the steps that bring a machine from one state to another, as data. The daemon applies a plan,
// and undoes it after a failure. A review prints the plan. The plan is empty if the machine does not differ from its
// config.
//
// Package desired reads the state that a config requires of a machine. Scope lists the parts of the machine that are
// observed, Target is the state after the update, and Diff returns the steps from the observed state to it.
//
// A path is known by its place, which is its directory without links, and its last name. Transition.Place finds the
// places of both configs, so that no step removes under one spelling what another spelling keeps. The originals below
// host.OrigDir have places too. Texts about a config have the spelling of the config.
//
// After an update from one config to another, a machine is as if it had first booted with the second. So the daemon
// stores the data that a config replaces, and restores it when no config names the path or account any more:
//
//   - The originals of files and links, and the mode and owner of directories, are below host.OrigDir. A directory that
//     the daemon created is removed once it is empty. The original of a file of the first config is the image's file
//     below /usr/etc, if the system has such a file. The daemon replaces an existing file only if the config sets
//     overwrite, because a new machine with that file would not boot.
//   - A file with appended parts is always its original and the appended bytes. On a machine that first booted with the
//     appended parts, the original is the content before these parts.
//   - Users and groups are in host.AccountsPath. The daemon removes an account that a config created, without its home
//     directory, and restores the specified attributes of an account that existed. Of the accounts in the first config,
//     core, root and their groups existed before that config. An account without a specified number gets the next free
//     number. The daemon never changes the number of an existing account. The daemon reserves the numbers of removed
//     users for these users.
//   - host.UnitsPath has whether each unit was enabled before a config enabled, disabled, masked or replaced it. A
//     config without a setting for a unit, such as a config with only a drop-in, neither enables nor disables it. A new
//     unit gets its preset. The units of the first config have no record, and return to their presets.
//
// A hard link is created after all other paths, and again when its file is replaced.
//
// A machine that got its first config without secrets starts from AtFirstBoot of that config.
//
// Diff keeps this order, and mcd/apply relies on it:
//
//  1. The journal is durable before the first step. The store has what the steps replace before the journal is written.
//  2. Pods are drained before the first step of a plan of the level drain or above.
//  3. The OS is staged before files change: that step fails most often, and is undone easily.
//  4. Units that are removed, or whose file changes, are disabled. Then paths are removed, children first. Then users and groups change. Then
//     paths are written, parents first. Then units are enabled.
//  5. Actions (daemon-reload, reload, restart) follow, in the order of the decision and with its repetitions.
//  6. The record of the config in force is written last.
//  7. A reboot follows the record. After the reboot, the daemon compares the running OS with the staged one before it
//     removes the journal.
//
// The inverse of a plan keeps this order, with the changes of step 4 in reverse, and hard links last again.
//
// In: configs, the observed State, a disruption.Decision. Out: Plan, text. Never: I/O, the contents of files in a Plan
// or its text.
//
// The part desired reads the state that a config requires of a machine: paths, units, users, groups and the OS. The
// package replaces account names by the machine's numbers. Package desired marks values that the config does not set,
// so that mcd/plan leaves them unchanged.
//
// In: a config, the machine's accounts. Out: State, with refusals of settings that this machine does not support.
// Never: any I/O, the present state of a path, a decision about steps.
package plan
