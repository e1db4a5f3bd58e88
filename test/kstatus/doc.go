// Package kstatus checks that the statuses of Bunsen's objects follow kstatus, so that `kubectl wait`, Flux and Argo CD
// come to the same result as a user who reads the conditions.
//
// In: every version of each GitSource, MachineConfigPool and BunsenStatus that an API server stores. Out: the rules
// that a version breaks, in words. Never: a write.
package kstatus
