// Package heartbeat reports that this replica of the controller runs, whether it leads, and when it last listed the
// repositories.
//
// In: the replica's own Lease. Out: the same Lease, and the readiness of the process. Never: leader election.
package heartbeat
