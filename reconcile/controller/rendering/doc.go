// Package rendering is the controller that creates the rendered config of each pool. Package render does the merge.
//
// In: MachineConfigs, MachineConfigPools, the MachineConfiguration, GitSources. Out: rendered configs,
// spec.configuration and RenderDegraded of pools. Never: a write to a node.
package rendering
