// Package machineconfig reads a MachineConfig's spec into typed form and writes it back in one canonical form. The
// renderer, the policy, the server and the daemon read configs with this package, so they agree.
//
// It also checks configs beyond Ignition's rules, names rendered configs, and reads what only Bunsen has in them: files
// that machines download by their hash or that are in the content store, references to secrets, and facts of single
// nodes.
//
// In: a MachineConfigSpec (Ignition 3.0 to 3.5 as raw JSON). Out: a Config with Ignition 3.5.0, or every problem at
// once, each with the path of its value. Never: defaults of a cluster, any I/O; a merge, except of the configs that one
// config names.
package machineconfig
