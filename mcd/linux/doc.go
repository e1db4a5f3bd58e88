// Package linux changes the users and groups of a machine: with the machine's own shadow-utils or, if the machine
// does not run, in its files.
//
// In: a machine's files. Out: host.Passwd. Never: a home directory, a password in an argument or an error.
//
// The part linux creates a host: for a real machine, for a machine that is not running, or for a simulated machine. A
// simulated host has real files, unit files and enablement symlinks in its own directory. The host of a machine that is
// not running prints actions that need a running machine: reloads, restarts and reboots.
//
// In: the directory that is the machine's root. Out: host.Host. Never: a path outside of that root; a decision about
// what to change.
//
// The part runtime pulls and pins images with the programs of a machine: crictl for both runtimes, ctr for containerd,
// and a drop-in file of CRI-O.
//
// In: names of images that package images has checked. Out: pulled images, pins, a record of the pins. Never: a
// credential as argument or in the environment, a link to the code of a runtime.
//
// The part watch reports that watched paths of a machine may have changed, and that a user logged in over SSH. Package
// watch uses inotify.
//
// In: a machine's files, paths. Out: signals. Never: what has changed, a write.
package linux
