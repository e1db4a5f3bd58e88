// Package trust plans the files that a machine gets beside its config: certificates and the pull secret.
//
// In: the server's answer, what the daemon wrote before, the config in force, the observed State. Out: Plan with the
// actions of the disruption policy, the record of what the daemon wrote, the report for the Node. Never: I/O, the
// clock, a drain, a reboot; contents in a report or an error.
package trust
