// Package healthcheck checks whether a machine is healthy with a new config, and stores the rejection of a config that
// fails the check.
//
// Package health decides; package healthcheck polls systemd, the kubelet and the API server for this decision. Package
// healthcheck also counts the attempts that a power cut may have ended (package attempts), and the health checks that
// did not end.
//
// In: Options, the journal's record, the state files. Out: nil or an error that rejects the config,
// statefile.Rejection. Never: steps on the host, annotations.
package healthcheck
