// Package components finds out which machine-config-controllers and machine-config-servers run, what they report, and
// which configs new machines get.
//
// In: Leases, pools and now. Out: rows, warnings, commands that help, as data and as text. Never: I/O.
package components
