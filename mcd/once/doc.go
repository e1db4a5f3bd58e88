// Package once brings a machine to one config without asking a cluster: because it has none, or because it is about to
// join one and its OS has to be right before the kubelet runs (first boot).
//
// The journal, the way back and the record on disk are those of the daemon in a cluster; a machine can change over to that
// later, and is then in the config that its record names.
//
// In: a host.Host, the text of a config. Out: the MachineConfig in it, a Draft (what is to be done), apply.Applied. Never: the
// network, the process's files, a clock; the contents of a file in an error or a text.
package once
