// Package ignition reads Ignition configs of every version that people still have, as 3.5.0, and says of each part of the
// output which line of the repository it comes from.
//
// In: a config as JSON or YAML with its origins, or a MachineConfig's spec. Out: the config as Ignition 3.5.0, or every
// problem at its line. Never: a config that another version understands better than the one that nodes here speak; the
// daemon, which must not link the readers of old versions.
package ignition
