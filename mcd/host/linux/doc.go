// Package linux is the real host: a rooted file system, systemd and the OS. Simulated hosts are this host too, with real
// files, unit files and enablement symlinks in a directory of their own; only what would need a machine of its own is
// printed instead of done: reloads, restarts and reboots.
//
// In: the directory that is the machine's root. Out: host.Host. Never: a path outside of that root, whatever links in
// it say; a decision about what to change.
package linux
