// Package systemd enables units by their symlinks. The package requests reloads, restarts and reboots from systemd and
// logind over D-Bus.
//
// In: a machine's files, the directory of its buses. Out: host.Units, host.Power. Never: a call without a time limit,
// a forced reboot, the log of a unit in an error.
package systemd
