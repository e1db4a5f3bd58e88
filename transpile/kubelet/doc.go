// Package kubelet turns a KubeletConfiguration or a KubeletConfig of a repository into the files that the kubelet
// reads.
//
// In: one document with its origins, and its pool. Out: a config with those files, or findings at the document's lines.
// Never: a field that can prevent a node from joining the cluster again; a value that the document does not have.
package kubelet
