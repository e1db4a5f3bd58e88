// Package render turns a pool's MachineConfigs into the one config that its nodes run, named by its content. The
// cluster and the preview of a change call the same function, so a name seen in review is the name that is rolled out.
//
// In: MachineConfigs in any order, a pool's name, a cluster's default images. Out: a Rendered, with the conflicts
// between its inputs; or every problem of every MachineConfig at once. Never: which MachineConfigs a pool selects,
// whether nodes accept the result (policy), any I/O.
package render
