// Package rollouts is the controller that assigns rendered configs to nodes, a few at a time, as package rollout
// decides.
//
// In: MachineConfigPools, RolloutPolicies, Nodes, the answers of health gates. Out: the desired configs of nodes, the
// record and the status of pools. Never: a decision of its own.
package rollouts
