// Package render turns a pool's MachineConfigs into the one config that its nodes run, named by its content. The
// cluster and the preview of a change call the same function, so the config in a review has the same name as the config
// that is rolled out.
//
// In: MachineConfigs in any order, a pool's name, a cluster's default images. Out: a Rendered, with the conflicts
// between its inputs; or every problem of every MachineConfig at once. Never: a decision on which MachineConfigs a pool
// selects, or on whether nodes accept the result (package disruption decides that); any I/O.
package render
