// Package kinds turns the documents of a repository that are neither Butane nor kustomizations into configs. Each has
// a document's line for every value and every error.
//
//   - Ignition configs of versions 2 and 3 become version 3.5.0.
//   - KubeletConfigurations and KubeletConfigs become the files that the kubelet reads.
//   - ContainerRuntimeConfigs become the files that CRI-O reads.
//   - The objects that say where images come from become the files of CRI-O and containerd: mirrors, blocked and
//     insecure registries, signature policies. All such objects of a pool become one config.
//   - SSHKeys documents become the users of a config.
//   - nodes.yaml becomes a table of facts about single nodes.
//
// Objects are decoded strictly into their types. The daemon must not link this package, because it links the parsers
// of old versions of Ignition.
//
// In: documents with their origins, and the pool. Out: configs with origins, tables, or findings at the lines of the
// documents. Never: a value that the document does not have; a field that can prevent a node from joining the cluster
// again; a key that sshd would ignore silently; a private key, a credential or a quotation of a document in a
// message.
package kinds
