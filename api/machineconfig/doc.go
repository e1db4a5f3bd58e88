// Package machineconfig reads a MachineConfig's spec into typed form and writes it back in one canonical form. The
// renderer, the policy, the server and the daemon read configs with this package, so they agree.
//
// In: a MachineConfigSpec (Ignition 3.0 to 3.5 as raw JSON). Out: a Config with Ignition 3.5.0, or every problem at
// once. Never: merging, defaults of a cluster, any I/O.
package machineconfig
