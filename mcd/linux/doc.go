// Package linux puts a host together: a real machine, a machine that is not running, or a simulated one. A simulated
// host has real files, unit files and enablement symlinks in its own directory. The host of a machine that is not
// running prints what needs a running one: reloads, restarts and reboots.
//
// Beside the parts of their own packages (files, systemd, image), it has those that are small: users and groups, with
// the machine's shadow-utils or, if it does not run, in its files; images, pulled and pinned with crictl and ctr; and
// inotify, which says that watched paths may have changed or that a user logged in over SSH.
//
// In: the directory that is the machine's root, names of images that package images has checked, paths to watch. Out:
// host.Host, pulled and pinned images, signals. Never: a path outside of that root; a home directory; a password or a
// credential in an argument, the environment or an error; a decision about what to change.
package linux
