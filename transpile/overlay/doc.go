// Package overlay builds one directory of a repository as kustomize would. Butane documents and Ignition configs are
// resources too. Patches merge the lists of documents by path and name, and every value has the position of the line
// that wrote it last. The package reads the layers itself and calls kustomize's filters for one document at a time,
// because kustomize reports neither lines nor lost patches.
//
// In: a rooted file system and a directory in it. Out: whole documents with their origins, or findings. Never:
// plug-ins, generators, remote bases, files outside the file system; the schema of one repository in the build of
// another.
package overlay
