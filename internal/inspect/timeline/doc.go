// Package timeline lists when each node of a pool took the steps of the pool's last rollout.
//
// In: a fleet, MachineConfigNodes and events. Out: the known times of each node. Never: I/O; a guess.
package timeline
