// Package kinds turns a ContainerRuntimeConfig of a repository into the files that CRI-O reads.
//
// In: one document with its origins, and its pool. Out: a config with those files, or findings at the document's lines.
// Never: files for containerd; a setting that the document does not have, except the paths that storage.conf needs.
//
// The part ignition reads Ignition configs of versions 2 and 3 as version 3.5.0. For each part of the output, the
// package records the line of the repository that the part comes from.
//
// In: a config as JSON or YAML with its origins, or a MachineConfig's spec. Out: the config as Ignition 3.5.0, or every
// problem at its line. Never: a config that version 3.5.0 cannot express. The daemon must not link this package,
// because the package links the parsers of old versions.
//
// The part kubelet turns a KubeletConfiguration or a KubeletConfig of a repository into the files that the kubelet
// reads.
//
// In: one document with its origins, and its pool. Out: a config with those files, or findings at the document's lines.
// Never: a field that can prevent a node from joining the cluster again; a value that the document does not have.
//
// The part nodefacts reads a table of facts about nodes, with the position of each value.
//
// In: the text of a file nodes.yaml. Out: the rows, or findings. Never: a document, the file system.
//
// The part object decodes an object's YAML strictly into its type and reports the line of each error. The package also
// collects the config that a document describes.
//
// In: one object as YAML, with its positions. Out: the typed object and a config, or findings. Never: a default, a
// field that the type does not have, an error of a decoder that quotes a document.
//
// The part registries turns the objects that say where images come from into files for container runtimes: mirrors of
// registries, blocked and insecure registries, and signature policies.
//
// In: all such documents of one pool, with their origins. Out: one config with the files of CRI-O and containerd, or
// findings at the lines of the documents. Never: a file whose content depends on where a document is; credentials; a
// setting that a runtime does not have without a finding.
//
// The part sshkeys turns an SSHKeys document, which lists users and their SSH keys, into the users of a config.
//
// In: an SSHKeys document with its origins. Out: a config with the users' keys, or findings at the keys' lines. Never:
// a key that sshd would ignore silently; a private key, or any key in a message.
package kinds
