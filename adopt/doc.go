// Package adopt turns existing MachineConfigs into a config repository: a dump of a cluster, or the files that somebody
// used to apply, become Butane documents that people can read, one directory per pool, and render to equal content.
//
// In: YAML or JSON texts with MachineConfigs, KubeletConfigs, ContainerRuntimeConfigs, MachineConfigPools, DriftPolicies,
// RolloutPolicies and a MachineConfiguration, lists of them included. Out: the files of a repository, what became of each object,
// and findings. Never: a path outside the tree, an object that is lost in silence, a secret in a message, any I/O.
package adopt
