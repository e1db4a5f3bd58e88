// Package adopt converts existing MachineConfigs to a config repository. Package adopt reads a dump of a cluster, or
// the files that a user applied before. Package adopt writes readable Butane documents, one directory per pool, which
// render to equal content.
//
// In: YAML or JSON texts with MachineConfigs, KubeletConfigs, ContainerRuntimeConfigs, MachineConfigPools,
// DriftPolicies, RolloutPolicies and a MachineConfiguration, also inside lists. Out: the files of a repository, the
// result of each object, and findings. Never: a path outside the tree, an object that is skipped without a finding, a
// secret in a message, any I/O.
package adopt
