// Package containerruntime turns a ContainerRuntimeConfig of a repository into the files that CRI-O reads.
//
// In: one document with its origins, and its pool. Out: a config with those files, or findings at the document's lines.
// Never: files for containerd; a setting that the document does not have, except the paths that storage.conf needs.
package containerruntime
