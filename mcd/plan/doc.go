// Package plan works out what has to be done to bring a machine from one state to another, as data. The same plan is
// walked by the daemon, undone after a failure, printed in a review, and empty when nothing has drifted.
//
// The way is: Want says what a config asks of a machine, Scope which parts of the machine have to be looked at, Target
// what the machine shall be after the update (with originals kept and restored), and Diff the steps from the observed
// State to it.
//
// A machine that went from one config to another looks like one that began with the other. What a config replaces is
// therefore kept where it was first replaced, and comes back when no config names it:
//
//   - files and links, and the mode and owner of directories, below host.OrigDir; a directory that was made goes when
//     nobody uses it. Of what a machine was born with, the original is what its image keeps below /usr/etc; where it keeps
//     nothing, nothing was there. What was there is replaced only where the config says so (overwrite), because a new
//     machine that has the same would not boot;
//   - what is appended to: the file is always its original and the appended bytes. A machine that was born with an
//     appended file has its original in front of these bytes;
//   - users and groups, in host.AccountsPath. One that a config made goes with it, without its home directory; one that was
//     there is as it was, in all that a config says. Of a machine's first config, core, root and their groups were there,
//     all others were made. Numbers that no config says are the next free ones, and stay. The numbers of accounts that
//     are there are never changed; those of users who went are given to nobody else, and to them when they come back.
//
// A hard link is a further name of a file: it is made when all else is made, and again when its file becomes another one.
//
// A machine whose first config came without its secrets was born with Born of it, and goes on from there.
//
// The ordering contract, kept by Diff and relied on by mcd/apply:
//
//  1. The journal is durable before the first step, and what the steps replace is in the store before the journal.
//  2. Pods are drained before the first step of a plan of level drain or above.
//  3. The OS is staged before files: a stage is the step most likely to fail, and costs nothing to take back.
//  4. Units that go, or whose file changes, are disabled before files; what has to go is removed, children first; users
//     and groups change; what comes is made, parents first; then units are enabled. Files before units.
//  5. Actions (daemon-reload, reload, restart) come when all is on disk, in the order of the decision and with its repetitions.
//  6. The record of the current config is the last thing written.
//  7. A reboot comes after the record; after it, what runs is confirmed before the journal is cleared.
//
// The inverse of a plan keeps this contract but for its changes' order, which is reversed, and hard links come last again.
//
// In: configs, the observed State, a policy.Decision. Out: Wanted, Plan, text. Never: any I/O, the contents of files in
// a Plan or its text.
package plan
