// Package disruption is the controller of the disruption policy: it merges the user's policy into the default policy,
// for the daemons.
//
// In: the MachineConfiguration. Out: its status. Never: the use of a part of an invalid policy.
package disruption
