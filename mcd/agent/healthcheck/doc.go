// Package healthcheck checks whether a machine is healthy with a new config, and stores the rejection of a config that fails the check.
//
// Package health decides; this package polls systemd, the kubelet and the API server for it. It also counts the attempts that a power cut
// may have ended (package attempts), and the checks that did not end.
//
// In: Options, the journal's record, the state files. Out: nil or an error that rejects the config, statefile.Rejection. Never: steps on
// the host, annotations.
package healthcheck
