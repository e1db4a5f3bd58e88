// Package fromgit renders a git repository without a cluster. The package follows the repository as the source
// controller does, and renders the configs of each commit with the names and contents that the controllers would give
// them.
//
// A Config replaces the cluster's GitSource, its Secret and the store on the controller's disk: the Secret is a folder
// with files of the same names. A commit is applied completely or not at all. While the newest commit has problems or
// the remote is unreachable, the last good commit stays applied, also after a restart. MachineConfigs that exist only
// in a cluster are not included.
//
// In: a repository's address, credentials, a folder for trees. Out: each pool's rendered MachineConfig. Never: a
// cluster; a rendering that differs from that of package review; credentials in an error or a log.
package fromgit
