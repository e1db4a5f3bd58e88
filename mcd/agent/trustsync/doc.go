// Package trustsync keeps the files that a machine has beside its config as the machine-config-server sends them:
// certificates and the pull secret. It does so while the pool is paused, while an update waits, and while no server
// answers.
//
// In: a Source, a host.Host, the config in force. Out: files, the report for the Node. Never: a drain, a reboot; the
// paths of the config in force; contents in a log or a report.
package trustsync
