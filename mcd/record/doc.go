// Package record keeps on a machine's disk which config is in force there: name and spec, for root only.
//
// In: host.Files, a MachineConfig. Out: the MachineConfig of the record, the bytes of a new one, a config in typed form. Never:
// a write of its own (the record is the last step of a plan), the cluster, contents in an error.
package record
