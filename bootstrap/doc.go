// Package bootstrap renders a git repository without a cluster: it follows the repository as the source controller does, and
// makes of each commit the very configs, by name and content, that the controllers would.
//
// Where the cluster has a GitSource, its Secret and a store on the controller's disk, there is a Config here: the Secret is a
// folder with the same names in it. A commit is taken whole or not at all; while the newest one is bad or the remote is
// away, the last good one stays, also over a restart. Layers that others make through a cluster's API are not known here.
//
// In: a repository's address, credentials, a folder for trees. Out: each pool's rendered MachineConfig. Never: a cluster; a
// render that is not review's; credentials in an error or a log.
package bootstrap
