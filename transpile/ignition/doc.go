// Package ignition reads Ignition configs of versions 2 and 3 as version 3.5.0. For each part of the output, the
// package records the line of the repository that the part comes from.
//
// In: a config as JSON or YAML with its origins, or a MachineConfig's spec. Out: the config as Ignition 3.5.0, or every
// problem at its line. Never: a config that version 3.5.0 cannot express. The daemon must not link this package,
// because the package links the parsers of old versions.
package ignition
