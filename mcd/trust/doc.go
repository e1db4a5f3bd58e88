// Package trust keeps the files on a machine that it gets beside its config: certificates of
// the cluster and of registries, and the pull secret, as the machine-config-server answers.
//
// A Syncer asks the server, and brings the machine to its newest answer while no update is under way, without a drain
// or a reboot. A Target is what the machine shall have: the files at their places on this OS (Machine), without the
// paths that belong to the config in force. It returns a plan, with the actions of the disruption policy, that also
// writes the record of what the daemon wrote, and the report for the Node. After a failure the earlier files stay.
//
// In: the server's answer, the record on the machine, the config in force, a host.Host, the time. Out: files, steps of
// their plan, the report. Never: a path of the config, a drain, a reboot; contents in a report, a log or an error.
package trust
