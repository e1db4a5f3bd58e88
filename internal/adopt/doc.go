// Package adopt turns what an administrator has into a config repository: MachineConfigs of a cluster or of files
// (Import), or a directory of Butane files as Butane itself compiles them (ImportTree). The documents that it writes
// are readable, and render to equal content.
//
// In: YAML or JSON with MachineConfigs, KubeletConfigs, ContainerRuntimeConfigs, pools and policies, also inside lists;
// or a directory with its local files. Out: the files of a repository, one directory for each pool, and what became of
// each object or file. Never: a path or link that leads out of the tree, a config from the network, an object that is
// left out without a finding, a secret in a message, any I/O.
package adopt
