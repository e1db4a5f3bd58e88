// Package once applies one config to a machine without a cluster. The machine has no cluster, or it is about to join a
// cluster and needs the right OS before the kubelet runs (first boot).
//
// The package uses the same journal, rollback and record as the daemon in a cluster. The machine can join a cluster
// later. The config in force of a machine is then the config that its record names.
//
// In: a host.Host, the text of a config. Out: the MachineConfig in it, a Plan (the steps), apply.Applied. Never: the
// network, the process's files, a clock; the contents of a file in an error or a text.
package once
