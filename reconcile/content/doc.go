// Package content keeps large files of repositories in an OCI registry, each under a tag with its hash. It also
// deletes those that no config names any more.
//
// Nothing on the cluster lists these files: configs name them by their hashes, and the registry has them or not. One
// lock keeps a writer of this process from relying on an artifact that is being deleted. A controller that was the
// leader before may still delete one; the next sweep finds that, and writes the file again.
//
// In: files and their hashes. Out: artifacts. Never: a MachineConfig; a whole file in memory; the deletion of an
// artifact that no config of this cluster named, because clusters may share a repository.
package content
