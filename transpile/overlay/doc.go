// Package overlay builds one directory of a repository as kustomize would: plain documents are its resources, patches
// merge by path and name, and every leaf keeps the line that wrote it last. It goes through the layers by itself and
// calls kustomize for one document at a time, so that what nothing touches costs nothing and what changes costs itself.
//
// In: a rooted file system and a directory in it. Out: whole documents with their origins, or findings. Never: plug-ins,
// generators, remote bases, anything outside the file system; one repository's schema never reaches another's build.
package overlay
